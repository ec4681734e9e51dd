from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from django import forms
from django.core import serializers
from django.core.exceptions import FieldError, ImproperlyConfigured, ValidationError
from django.db import connections, models
from django.db.models import F, Value
from django.db.models.functions import Upper
from django.db.utils import ConnectionHandler
from django.test.utils import isolate_apps
from rest_framework.serializers import ModelSerializer

from controlplane.lib.redact import redact
from controlplane.lib.secrets import MASK, Secret, SecretError, SecretField, generate_key, rotate

OLD, NEW = generate_key(), generate_key()

with isolate_apps():

    class Vault(models.Model):
        name = models.TextField(default="", blank=True)
        secret = SecretField()
        spare = SecretField(null=True, blank=True, default="spare")

        class Meta:
            app_label = "vault"

    class Wrong(models.Model):
        secret = SecretField(unique=True)

        class Meta:
            app_label = "vault"


@pytest.fixture(autouse=True)
def keys(settings: Any) -> None:
    settings.SECRET_FIELD_KEYS = [OLD]


@pytest.fixture
def vaults(django_db_blocker: Any) -> Iterator[models.QuerySet]:
    """The vault's table in a database of its own in memory."""
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    connection = ConnectionHandler({"default": database, "vault": database})["vault"]
    connections["vault"] = connection
    with django_db_blocker.unblock():
        with connection.schema_editor() as editor:
            editor.create_model(Vault)
        yield Vault._base_manager.using("vault")
        connection.close()
    del connections["vault"]


def stored(pk: int, column: str = "secret") -> Any:
    with connections["vault"].cursor() as cursor:
        return cursor.execute(f"SELECT {column} FROM vault_vault WHERE id = %s", [pk]).fetchone()[0]


def test_a_secret_does_not_show_itself() -> None:
    secret = Secret("hunter2")
    shown = [
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret:>20}",
        f"{secret}",
        repr([secret]),
        repr(vars(Vault(secret=secret))),
    ]
    assert all("hunter2" not in text for text in shown)
    assert str(secret) == MASK
    assert secret.reveal() == "hunter2"
    assert redact({"value": secret}) == {"value": MASK}
    with pytest.raises(TypeError):
        json.dumps(secret)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        hash(secret)


def test_equality_and_copies() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    secret = Secret("a")
    assert copy.deepcopy([secret])[0] is secret
    assert copy.copy(secret) is secret
    assert Secret("a")
    assert not Secret("")


def test_stored_encrypted_read_wrapped(vaults: models.QuerySet) -> None:
    made = vaults.create(secret="hunter2")
    assert isinstance(made.secret, Secret)
    assert made.secret.reveal() == "hunter2"
    assert "hunter2" not in stored(made.pk)
    assert stored(made.pk).startswith("gAAAA")
    read = vaults.get()
    assert read.secret.reveal() == "hunter2"
    assert read.spare.reveal() == "spare"
    assert "hunter2" not in repr(vars(read))
    assert vaults.values_list("secret", flat=True).get().reveal() == "hunter2"


def test_saving_again_keeps_the_stored_bytes(vaults: models.QuerySet) -> None:
    made = vaults.create(secret="hunter2")
    before = stored(made.pk)
    read = vaults.get()
    read.name = "renamed"
    read.save(using="vault")
    assert stored(made.pk) == before


def test_bulk_writes_expressions_and_null(vaults: models.QuerySet) -> None:
    first, second = vaults.bulk_create([Vault(secret="a"), Vault(secret="b", spare=None)])
    first.secret = "c"
    vaults.bulk_update([first], ["secret"])
    assert vaults.get(pk=first.pk).secret.reveal() == "c"
    assert stored(second.pk, "spare") is None
    assert vaults.get(pk=second.pk).spare is None
    vaults.filter(pk=second.pk).update(spare=F("secret"))
    assert vaults.get(pk=second.pk).spare.reveal() == "b"
    assert vaults.filter(spare__isnull=True).count() == 0
    assert vaults.defer("secret").get(pk=first.pk).secret.reveal() == "c"


@pytest.mark.parametrize(
    "lookup",
    ["secret", "secret__exact", "secret__startswith", "secret__in", "secret__regex", "secret__upper"],
)
def test_lookups_are_refused(vaults: models.QuerySet, lookup: str) -> None:
    with pytest.raises(FieldError):
        list(vaults.filter(**{lookup: ["a"] if lookup.endswith("in") else "a"}))


def test_a_function_over_the_field_sees_only_the_encrypted_form(vaults: models.QuerySet) -> None:
    vaults.create(secret="hunter2")
    assert "HUNTER2" not in str(vaults.annotate(u=Upper("secret", output_field=models.TextField())).get().u)
    assert vaults.annotate(v=Value("x", output_field=SecretField())).get().v.reveal() == "x"


def test_only_text_is_a_secret_and_a_mask_is_not() -> None:
    for wrong in (5, b"bytes", ["a"]):
        with pytest.raises(ValidationError, match="must be text"):
            Vault(secret=wrong)
    with pytest.raises(ValidationError, match="mask"):
        Vault(secret=MASK)


def test_serializers_show_the_mask(vaults: models.QuerySet) -> None:
    made = vaults.create(secret="hunter2", spare=None)

    class VaultSerializer(ModelSerializer):
        class Meta:
            model = Vault
            fields = "__all__"

    assert VaultSerializer(made).data == {"id": made.pk, "name": "", "secret": MASK, "spare": None}
    dumped = serializers.serialize("json", [made])
    assert "hunter2" not in dumped
    assert stored(made.pk) not in dumped


class VaultForm(forms.ModelForm):
    class Meta:
        model = Vault
        fields = ("secret", "spare")


def test_a_form_shows_nothing_and_left_empty_keeps_the_secret(vaults: models.QuerySet) -> None:
    made = vaults.create(secret="hunter2")
    token = stored(made.pk)
    page = VaultForm(instance=made).as_p()
    assert "hunter2" not in page
    assert token not in page
    assert MASK not in page
    assert 'type="password"' in page
    kept = VaultForm({"secret": "", "spare": ""}, instance=made)
    assert kept.is_valid()
    assert not kept.has_changed()
    kept.save(commit=False).save(using="vault")
    assert stored(made.pk) == token
    changed = VaultForm({"secret": " new ", "spare": ""}, instance=made)
    assert changed.is_valid()
    assert changed.changed_data == ["secret"]
    assert changed.save(commit=False).secret.reveal() == " new "
    assert "new" not in changed.as_p().replace("new-password", "")


def test_a_new_row_needs_its_secret() -> None:
    form = VaultForm({"secret": "", "spare": ""})
    assert form.errors == {"secret": ["This field is required."]}
    with pytest.raises(ValidationError) as raised:
        Vault(secret="").clean_fields(exclude=["id"])
    assert set(raised.value.message_dict) == {"secret"}


def test_migrations_see_a_plain_field() -> None:
    name, path, args, kwargs = Vault._meta.get_field("spare").deconstruct()
    assert (name, path, args) == ("spare", "controlplane.lib.secrets.SecretField", [])
    assert kwargs == {"null": True, "blank": True, "default": "spare"}


def test_checks(settings: Any) -> None:
    assert Vault.check() == [] or all(not str(message.id).startswith("caduceus") for message in Vault.check())
    assert [error.id for error in Wrong._meta.get_field("secret").check()] == ["caduceus.E101"]
    field = Vault._meta.get_field("secret")
    for keys in ([], ["not a key"]):
        settings.SECRET_FIELD_KEYS = keys
        assert [error.id for error in field.check()] == ["caduceus.E102"]
        with pytest.raises(ImproperlyConfigured):
            Secret("a").seal()


def test_rotation(vaults: models.QuerySet, settings: Any) -> None:
    for number in range(5):
        vaults.create(secret=f"s{number}", spare=None)
    settings.SECRET_FIELD_KEYS = [NEW, OLD]
    vaults.create(secret="s5", spare=None)
    lost = vaults.create(secret="lost", spare=None)
    with connections["vault"].cursor() as cursor:
        cursor.execute("UPDATE vault_vault SET secret = 'damaged' WHERE id = %s", [lost.pk])
    assert [row.secret.needs_rotation for row in vaults.order_by("pk")] == [True] * 5 + [False, True]
    result = rotate(Vault, "secret", batch=2, using="vault")
    assert (result.rotated, result.current, result.unreadable) == (5, 1, [lost.pk])
    assert rotate(Vault, "spare", using="vault").rotated == 0
    settings.SECRET_FIELD_KEYS = [NEW]
    assert [row.secret.reveal() for row in vaults.order_by("pk")[:6]] == [f"s{number}" for number in range(6)]
    with pytest.raises(SecretError, match="none of the keys"):
        vaults.get(pk=lost.pk).secret.reveal()


def test_a_lost_key_does_not_break_listing(vaults: models.QuerySet, settings: Any) -> None:
    vaults.create(secret="hunter2")
    settings.SECRET_FIELD_KEYS = [NEW]
    assert [str(row.secret) for row in vaults] == [MASK]
