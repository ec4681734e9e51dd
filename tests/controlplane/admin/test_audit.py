"""The audit's pages: filtered by address, verified and exported on the spot, never written."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.urls import reverse

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.admin import chain
from controlplane.models import AuditCheckpoint, AuditEntry
from controlplane.services import checkpoints, profiles
from tests.conftest import Persona, World

LIST = "admin:controlplane_auditentry_changelist"


@pytest.fixture
def entry(world: World) -> AuditEntry:
    """The entry about the team's profile, with one more after it."""
    with scope.team(world.team.pk), transaction.atomic():
        profiles.create(team=world.team, actor=SYSTEM, name="second")
        checkpoints.take(world.team.pk)
        return AuditEntry.objects.get(action="profile.created", target_label="deploy-bot")


def listed(world: World, query: str) -> list[str]:
    """The actions that the list shows."""
    response = world.dana.browser().get(f"{reverse(LIST)}?{query}")
    assert response.status_code == 200
    return [row.action for row in response.context["cl"].result_list]


def test_every_filter_works_by_address(world: World, entry: AuditEntry) -> None:
    assert listed(world, "action=profile.created") == ["profile.created"] * 2
    assert set(listed(world, "action=member")) == {"member.added"}
    assert listed(world, f"target_kind=profile&target_id={entry.target_id}") == ["profile.created"]
    assert listed(world, "q=deploy-bot") == ["profile.created"]
    assert listed(world, f"team={world.team.slug}&seq=1") == ["team.created"]
    assert listed(world, f"team={world.other_team.slug}") == []
    assert listed(world, "at__lt=2001-01-01") == []
    assert len(listed(world, "at__gte=2001-01-01")) == 6
    assert listed(world, "actor_kind=token") == []
    assert listed(world, "actor_id=") == listed(world, "")


def test_a_filter_that_no_menu_shows_can_be_taken_off(world: World, entry: AuditEntry) -> None:
    content = world.dana.browser().get(f"{reverse(LIST)}?request_id=none").content.decode()
    assert "request id: <code>none</code>" in content
    assert "Nothing matches." in content


def test_one_entry_shows_its_sentence_hash_and_neighbours(world: World, entry: AuditEntry) -> None:
    content = (
        world.dana.browser().get(reverse("admin:controlplane_auditentry_change", args=[entry.pk])).content.decode()
    )
    assert "Caduceus created the profile deploy-bot" in content
    assert bytes(entry.hash).hex() in content
    assert f"Entry {entry.seq - 1}</a>" in content
    assert f"Entry {entry.seq + 1}</a>" in content


def test_it_cannot_be_changed(world: World, operator: Persona, entry: AuditEntry) -> None:
    for client in (world.alice.browser(), operator.browser()):
        for kind in ("change", "delete"):
            address = reverse(f"admin:controlplane_auditentry_{kind}", args=[entry.pk])
            assert client.post(address, {"post": "yes", "action": "x"}).status_code == 403


def test_a_chain_is_verified_on_the_spot(world: World, entry: AuditEntry) -> None:
    client = world.dana.browser()
    content = client.post(reverse("admin:controlplane_auditentry_verify", args=[entry.pk])).content.decode()
    assert "Every link holds." in content
    assert "intact" in client.get(reverse("admin:index")).content.decode(), "the dashboard remembers"


def test_a_broken_chain_is_named(world: World, entry: AuditEntry, settings: Any, tmp_path: Path) -> None:
    settings.CHECKPOINT_DIR = tmp_path
    with scope.team(world.team.pk):
        kept = checkpoints.as_line(AuditCheckpoint.objects.get())
    (tmp_path / f"{world.team.pk}.jsonl").write_text(json.dumps({**kept, "hash": "00" * 32}))
    client = world.dana.browser()
    content = client.post(reverse("admin:controlplane_auditentry_verify", args=[entry.pk])).content.decode()
    assert "At entry 6: the checkpoint&#x27;s signature is wrong." in content
    assert "the checkpoint&#x27;s signature is wrong" in client.get(reverse("admin:index")).content.decode()


def test_a_long_chain_is_left_to_the_command(world: World, entry: AuditEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "LIMIT", 1)
    address = reverse("admin:controlplane_auditentry_verify", args=[entry.pk])
    content = world.dana.browser().post(address, follow=True).content.decode()
    assert f"manage.py audit verify --team {world.team.slug}" in content


def exported(world: World, form: str, query: str = "") -> str:
    """The file that the button gives."""
    address = reverse("admin:controlplane_auditentry_export", args=[form])
    response = world.dana.browser().post(f"{address}?{query}")
    assert response.status_code == 200
    assert f'filename="audit-{world.team.slug}.{form}"' in response["Content-Disposition"]
    return b"".join(response.streaming_content).decode()


def test_the_list_is_exported_as_it_is_filtered(world: World, entry: AuditEntry) -> None:
    rows = list(csv.DictReader(io.StringIO(exported(world, "csv", "action=profile"))))
    assert [row["target"] for row in rows if row["seq"].isdigit()] == ["deploy-bot", "second"]
    lines = [json.loads(line) for line in exported(world, "jsonl").splitlines()]
    assert [line["seq"] for line in lines[:-1]] == list(range(1, len(lines)))
    assert lines[-1]["checkpoint"]["seq"] == 6
    assert listed(world, "action=audit.exported") == ["audit.exported"] * 2


def test_an_export_needs_a_post_a_team_and_a_role(world: World, operator: Persona, entry: AuditEntry) -> None:
    address = reverse("admin:controlplane_auditentry_export", args=["csv"])
    assert world.dana.browser().get(address).status_code == 302
    assert operator.browser().post(address).status_code == 302, "an operator has to choose a team"
    assert world.bob.browser().post(address).status_code == 403
    assert world.dana.browser().post(reverse("admin:controlplane_auditentry_export", args=["xls"])).status_code == 404
    assert listed(world, "action=audit.exported") == []


def test_an_operator_reads_the_planes_own_audit(operator: Persona, world: World) -> None:
    client = operator.browser()
    assert "logged in from" in client.get(f"{reverse(LIST)}?team=plane").content.decode()
    assert "logged in from" not in world.dana.browser().get(f"{reverse(LIST)}?team=plane").content.decode()
