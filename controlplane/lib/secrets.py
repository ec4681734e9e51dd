"""Secrets at rest: a model field that encrypts with its own keys, and a value that does not show itself.

`settings.SECRET_FIELD_KEYS` lists Fernet keys; the first encrypts, all decrypt. To rotate: put a new key first, run
`rotate` over every field, then drop the old key.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NoReturn

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django import forms
from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.db import DEFAULT_DB_ALIAS, models, transaction
from django.db.models.query_utils import DeferredAttribute

MASK: Final = "••••"


class SecretError(Exception):
    """A stored secret cannot be decrypted with any of the keys in SECRET_FIELD_KEYS."""


def generate_key() -> str:
    """Return a new key for SECRET_FIELD_KEYS."""
    return Fernet.generate_key().decode()


class Secret:
    """A text that only `reveal()` shows; decrypted no earlier than then."""

    __slots__ = ("_plain", "_token")

    def __init__(self, text: str) -> None:
        if text == MASK:
            raise ValidationError("This is the mask of a secret, not a secret.", code="masked")
        self._plain: str | None = text
        self._token: str | None = None

    @classmethod
    def sealed(cls, token: str) -> Secret:
        """Wrap what the database holds."""
        secret = cls.__new__(cls)
        secret._plain, secret._token = None, token
        return secret

    def reveal(self) -> str:
        """Return the text itself."""
        if self._plain is None:
            self._plain = _decrypt(self._token or "")
        return self._plain

    def seal(self) -> str:
        """Return the form that is stored; a value that came from the database keeps its own."""
        if self._token is None:
            self._token = _fernet().encrypt((self._plain or "").encode()).decode()
        return self._token

    @property
    def needs_rotation(self) -> bool:
        """Say whether this is stored under another key than the first."""
        if self._token is None:
            return False
        try:
            Fernet(_keys()[0]).decrypt(self._token.encode())
        except InvalidToken:
            return True
        return False

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return MASK

    def __bool__(self) -> bool:
        return self._token is not None or bool(self._plain)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.reveal().encode(), other.reveal().encode())

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled: caches and queues would keep it readable")


class _SecretAttribute(DeferredAttribute):  # type: ignore[misc]
    """Wraps an assigned text at once, so that a model instance never holds a bare secret."""

    def __set__(self, instance: models.Model, value: Any) -> None:
        instance.__dict__[self.field.attname] = self.field.to_python(value)


class _SecretFormField(forms.CharField):  # type: ignore[misc]
    """Shows nothing of a kept secret; left empty, the kept one stays."""

    def get_bound_field(self, form: Any, field_name: str) -> Any:
        if form.get_initial_for_field(self, field_name):
            self.required = False
            self.widget.attrs["placeholder"] = "unchanged"
        return super().get_bound_field(form, field_name)

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(data)


class SecretField(models.TextField):  # type: ignore[misc]
    """A text stored encrypted, read as a Secret, never shown by forms or serializers and never searched."""

    descriptor_class = _SecretAttribute
    description = "Encrypted text"

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Secret | None:
        """Wrap the stored form."""
        return None if value is None else Secret.sealed(value)

    def to_python(self, value: Any) -> Any:
        """Wrap an assigned text; expressions and what is wrapped already pass."""
        if isinstance(value, str):
            return Secret(value)
        if value is None or isinstance(value, Secret) or hasattr(value, "resolve_expression"):
            return value
        raise ValidationError("A secret must be text.", code="invalid")

    def get_prep_value(self, value: Any) -> Any:
        """Return the encrypted form."""
        value = self.to_python(value)
        return value.seal() if isinstance(value, Secret) else value

    def clean(self, value: Any, model_instance: models.Model | None) -> Any:
        """Refuse an empty secret where one is needed: Django's own test does not see through the wrapper."""
        value = self.to_python(value)
        if value is None and not self.null:
            raise ValidationError(self.error_messages["null"], code="null")
        if not value and value is not None and not self.blank:
            raise ValidationError(self.error_messages["blank"], code="blank")
        return value

    def get_default(self) -> Any:
        """Return the default, wrapped."""
        return self.to_python(super().get_default())

    def value_to_string(self, obj: models.Model) -> str:
        """Return the mask, so that dumps and serializers hold no secret."""
        return "" if self.value_from_object(obj) is None else MASK

    def get_lookup(self, lookup_name: str) -> Any:
        """Refuse every lookup but isnull: two encryptions of one text differ, and a search would leak by timing."""
        return super().get_lookup(lookup_name) if lookup_name == "isnull" else None

    def get_transform(self, lookup_name: str) -> None:
        """Refuse every transform."""
        return

    def formfield(self, **kwargs: Any) -> Any:
        """Return a password input that renders nothing."""
        attrs = {"autocomplete": "new-password"}
        kwargs |= {"form_class": _SecretFormField, "widget": forms.PasswordInput(attrs=attrs), "strip": False}
        return super(models.TextField, self).formfield(**kwargs)

    def save_form_data(self, instance: models.Model, data: Any) -> None:
        """Keep the stored secret where the form was left empty."""
        if data:
            setattr(instance, self.name, data)

    def check(self, **kwargs: Any) -> list[Any]:
        """Refuse missing or malformed keys, and options that need comparable values."""
        errors = super().check(**kwargs)
        if self.unique or self.db_index:
            errors.append(checks.Error("A SecretField cannot be indexed or unique.", obj=self, id="caduceus.E101"))
        try:
            _fernet()
        except ImproperlyConfigured as error:
            hint = "Set SECRET_FIELD_KEYS to keys made by controlplane.lib.secrets.generate_key()."
            errors.append(checks.Error(str(error), hint=hint, obj=self, id="caduceus.E102"))
        return list(errors)


@dataclass
class Rotation:
    """What a rotation found: rows written anew, rows already right, and primary keys of what no key opens."""

    rotated: int = 0
    current: int = 0
    unreadable: list[Any] = field(default_factory=list)


def rotate(model: type[models.Model], field_name: str, *, batch: int = 500, using: str = DEFAULT_DB_ALIAS) -> Rotation:
    """Encrypt every stored value of this field with the first key; each batch is one transaction."""
    table = model._base_manager.using(using)
    result = Rotation()
    last: Any = None
    while True:
        with transaction.atomic(using=using):
            rows = table.exclude(**{f"{field_name}__isnull": True}).order_by("pk")
            if last is not None:
                rows = rows.filter(pk__gt=last)
            # Locked, so that a secret changed meanwhile is not overwritten by the one that was read.
            found = list(rows.select_for_update().values_list("pk", field_name)[:batch])
            for pk, secret in found:
                _rotate_one(table, field_name, pk, secret, result)
        if len(found) < batch:
            return result
        last = found[-1][0]


def _rotate_one(table: models.QuerySet, field_name: str, pk: Any, secret: Secret, result: Rotation) -> None:
    if not secret.needs_rotation:
        result.current += 1
        return
    try:
        renewed = Secret(secret.reveal())
    except SecretError:
        result.unreadable.append(pk)
        return
    table.filter(pk=pk).update(**{field_name: renewed})
    result.rotated += 1


def _keys() -> tuple[str, ...]:
    keys = tuple(getattr(settings, "SECRET_FIELD_KEYS", ()))
    if not keys:
        raise ImproperlyConfigured("SECRET_FIELD_KEYS is empty.")
    return keys


def _fernet() -> MultiFernet:
    return _fernet_of(_keys())


@lru_cache(maxsize=4)
def _fernet_of(keys: tuple[str, ...]) -> MultiFernet:
    try:
        return MultiFernet([Fernet(key) for key in keys])
    except (ValueError, TypeError):
        raise ImproperlyConfigured("SECRET_FIELD_KEYS holds something that is not a Fernet key.") from None


def _decrypt(token: str) -> str:
    try:
        return _fernet().decrypt(token.encode()).decode()
    except InvalidToken:
        raise SecretError("none of the keys in SECRET_FIELD_KEYS opens this secret") from None
