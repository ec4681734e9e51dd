"""Bundles say what is in force, are signed, and count up."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError, IntegrityError, transaction
from django.utils import timezone

from controlplane.errors import Conflict, Forbidden, NotFound
from controlplane.lib import canonical, signing
from controlplane.models import AuditEntry
from gateway_app.models import Bundle, ProfileVersion
from gateway_app.services import bundles, rollouts, serials
from hooks_app.models import Hook
from hooks_app.services import allowlists, changes, revocations, switches
from tests.conftest import World
from tests.gateway_app import fleet
from tests.hooks_app import governance
from tests.hooks_app.registry import acting, active_gate, consent, put


def content(bundle: Bundle | None) -> dict[str, Any]:
    """What a bundle says."""
    assert bundle is not None
    return json.loads(bundle.payload)["content"]


def test_the_first_bundle_of_a_profile_is_empty_but_whole(world: World) -> None:
    bundle = fleet.build(world)
    assert bundle is not None
    assert bundle.serial == 1
    assert content(bundle) == {
        "hooks": [],
        "files": [],
        "allowlists": {"shell": [], "senders": [], "commands": []},
    }


def test_the_same_content_gets_no_second_serial(world: World) -> None:
    first = fleet.build(world)
    assert first is not None
    assert fleet.build(world) is None
    governance.rule(world, "unplaced", governance.BLOCK_RM)
    assert fleet.build(world) is None, "a hook that the profile does not have changes nothing"


def test_hooks_come_in_order_with_what_was_reviewed(world: World) -> None:
    hardline = governance.rule(world, "hardline", governance.HARDLINE)
    gate = active_gate(world)
    governance.team_wide(world, hardline, fixed=True)
    governance.place(world, ("gate", "observe"))
    said = content(fleet.build(world))
    assert [(h["name"], h["layer"], h["mode"], h["state"]) for h in said["hooks"]] == [
        ("hardline", "fixed", "enforce", "active"),
        ("gate", "profile", "observe", "active"),
    ]
    shell = said["hooks"][1]
    assert shell["digest"] == gate.active_version.digest == canonical.digest(shell["manifest"])
    assert said["files"] == [
        {"digest": shell["manifest"]["files"][0]["digest"], "size": shell["manifest"]["files"][0]["size"]}
    ]


def test_a_draft_is_not_delivered(world: World) -> None:
    active_gate(world)
    governance.place(world, "gate")
    before = fleet.build(world)
    put(world, content=b"#!/bin/sh\necho '{}'\n")
    assert fleet.build(world) is None
    assert content(before)["hooks"][0]["version"] == 1


def test_the_address_of_a_webhook_stays_in_the_plane(world: World) -> None:
    governance.activate(
        world, "tickets", {"kind": "webhook", "events": ["pre_tool_call"], "url": "https://hooks.example.com/qz7"}
    )
    governance.place(world, "tickets")
    bundle = fleet.build(world)
    assert bundle is not None
    assert "qz7" not in bundle.payload
    assert content(bundle)["hooks"][0]["manifest"]["fail_mode"] == "closed"


def test_the_signature_holds_and_anything_else_breaks_it(world: World) -> None:
    bundle = fleet.build(world)
    assert bundle is not None
    envelope = json.loads(serials.envelope(bundle))
    ring = signing.KeyRing.from_json(envelope["ring"])
    signed = b"caduceus bundle 1\n" + envelope["payload"].encode()
    assert ring.verify(envelope["key_id"], signed, envelope["signature"])
    assert not ring.verify(envelope["key_id"], signed + b" ", envelope["signature"])
    assert not ring.verify(envelope["key_id"], envelope["payload"].encode(), envelope["signature"])
    said = json.loads(envelope["payload"])
    assert canonical.digest(said["content"]) == said["content_digest"]
    assert (said["team"], said["profile"], said["format"]) == (world.team.slug, "deploy-bot", 1)


def test_a_rotated_key_is_endorsed_by_the_pinned_one(world: World, tmp_path: Any, settings: Any) -> None:
    settings.SIGNING_KEY_FILE = tmp_path / "keys" / "signing.pem"
    first = fleet.build(world)
    assert first is not None
    pinned = signing.KeyRing.from_json(json.loads(serials.envelope(first))["ring"])
    signing.rotate(settings.SIGNING_KEY_FILE)
    governance.rule(world, "block-rm", governance.BLOCK_RM)
    governance.place(world, "block-rm")
    second = fleet.build(world)
    assert second is not None
    envelope = json.loads(serials.envelope(second))
    ring = signing.KeyRing.from_json(envelope["ring"])
    assert ring.extends(pinned)
    assert envelope["key_id"] == ring.current.key_id != pinned.current.key_id
    assert ring.verify(envelope["key_id"], serials.STATEMENT + envelope["payload"].encode(), envelope["signature"])


def test_a_revoked_gate_stays_but_its_bytes_go(world: World) -> None:
    gate = active_gate(world)
    governance.place(world, "gate")
    fleet.build(world)
    with acting(world.bob):
        revocations.revoke(hook=gate, actor=world.bob.actor, reason="leaks")
    said = content(fleet.build(world))
    assert (said["hooks"][0]["state"], said["hooks"][0]["revoked_reason"]) == ("revoked", "leaks")
    assert said["files"] == []


def test_a_switch_and_its_end_are_delivered(world: World) -> None:
    fleet.build(world)
    with acting(world.bob):
        switch = switches.pull(team=world.team, actor=world.bob.actor, kind="block", message="Frozen.", seconds=600)
    assert content(fleet.build(world))["switch"]["message"] == "Frozen."
    with acting(world.bob):
        switches.end(switch=switch, actor=world.bob.actor)
    assert "switch" not in content(fleet.build(world))


def test_allowlists_carry_their_end_and_have_the_profile_looked_at_then(world: World) -> None:
    until = timezone.now() + timedelta(hours=1)
    with acting(world.alice):
        change = allowlists.propose(
            profile=world.profile, actor=world.alice.actor, kind="sender", value="123", list_scope="telegram",
            reason="on call", expires_at=until,
        )  # fmt: skip
    consent(world, change)
    said = content(fleet.build(world))
    entry = {"platform": "telegram", "id": "123", "expires_at": canonical.moment(until)}
    assert said["allowlists"]["senders"] == [entry]
    assert fleet.rollout(world).rebuild_at == until


def test_the_audit_names_every_serial(world: World) -> None:
    bundle = fleet.build(world)
    with acting(world.alice):
        entry = AuditEntry.objects.get(action="bundle.issued")
    assert bundle is not None
    assert (entry.details["serial"], entry.details["content"]) == (1, bundle.version.digest)


class TestTheDatabaseRefuses:
    """What no code path can do."""

    def version(self, world: World) -> ProfileVersion:
        bundle = fleet.build(world)
        assert bundle is not None
        return bundle.version

    @pytest.mark.parametrize("serial", [1, 3])
    def test_a_serial_that_does_not_follow(self, world: World, serial: int) -> None:
        version = self.version(world)
        with acting(world.alice), pytest.raises(IntegrityError), transaction.atomic():
            Bundle.objects.create(
                team=world.team, profile=world.profile, serial=serial, version=version, payload="{}", key_id="x",
                signature="x", reason="x", issued_at=timezone.now(),
            )  # fmt: skip

    def test_changing_or_deleting_a_bundle(self, world: World) -> None:
        self.version(world)
        rows = Bundle.objects.all()
        for statement in (lambda: rows.update(payload="{}"), lambda: rows._raw_delete(rows.db)):
            with acting(world.alice), pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
                statement()

    def test_a_version_with_bytes_that_nobody_approved(self, world: World) -> None:
        gate = active_gate(world)
        governance.place(world, "gate")
        version = self.version(world)
        said = json.loads(json.dumps(version.content))
        said["hooks"][0]["digest"] = "sha256:" + "0" * 64
        assert gate.active_version.digest != said["hooks"][0]["digest"]
        with acting(world.alice), pytest.raises(IntegrityError, match="not in force"), transaction.atomic():
            ProfileVersion.objects.create(
                team=world.team, profile=world.profile, number=99, content=said, digest=canonical.digest(said)
            )

    def test_a_bundle_that_runs_what_was_revoked(self, world: World) -> None:
        gate = active_gate(world)
        governance.place(world, "gate")
        version = self.version(world)
        with acting(world.bob):
            revocations.revoke(hook=gate, actor=world.bob.actor, reason="leaks")
        with acting(world.alice), pytest.raises(IntegrityError, match="revoked"), transaction.atomic():
            serials.issue(world.profile, version, reason="again", actor=world.alice.actor)


class TestRollingBack:
    """Old content comes back under a new serial, reviewed where it lets more through."""

    def history(self, world: World) -> None:
        """#1 has nothing, #2 has a gate."""
        fleet.build(world)
        governance.rule(world, "block-rm", governance.BLOCK_RM)
        governance.place(world, "block-rm")
        fleet.build(world)

    def test_what_lets_more_through_is_reviewed(self, world: World) -> None:
        self.history(world)
        with acting(world.alice):
            done = bundles.roll_back(profile=world.profile, actor=world.alice.actor, serial=1)
        assert done.bundle is None
        assert "the gate block-rm is removed" in done.reasons
        consent(world, done.change)
        newest = fleet.rollout(world).stable
        assert (newest.serial, content(newest)["hooks"]) == (3, [])
        assert fleet.build(world) is None, "what was rolled back is not delivered again by itself"

    def test_what_only_tightens_applies_at_once(self, world: World) -> None:
        fleet.build(world)
        with acting(world.alice):
            change = allowlists.propose(
                profile=world.profile, actor=world.alice.actor, kind="command", value="git push*", reason="deploys"
            )
        consent(world, change)
        fleet.build(world)
        with acting(world.alice):
            done = bundles.roll_back(profile=world.profile, actor=world.alice.actor, serial=1)
        assert done.bundle is not None
        assert (done.bundle.serial, content(done.bundle)["allowlists"]["commands"]) == (3, [])

    def test_back_to_when_everything_passed_is_reviewed(self, world: World) -> None:
        with acting(world.bob):
            switch = switches.pull(team=world.team, actor=world.bob.actor, kind="pass", message="Drill.", seconds=600)
        fleet.build(world)
        with acting(world.bob):
            switches.end(switch=switch, actor=world.bob.actor)
        fleet.build(world)
        with acting(world.alice):
            done = bundles.roll_back(profile=world.profile, actor=world.alice.actor, serial=1)
        assert (done.bundle, done.reasons) == (None, ("a pulled switch would let everything pass",))

    @pytest.mark.parametrize(("hours", "weaker"), [(1, True), (-1, False)])
    def test_back_to_a_trial_that_still_runs_is_reviewed(self, world: World, hours: int, weaker: bool) -> None:
        fleet.build(world)
        now = content(fleet.rollout(world).stable)
        trial = now | {"observe_until": canonical.moment(timezone.now() + timedelta(hours=hours))}
        assert bool(bundles.loosens(now, trial)) is weaker
        assert bundles.loosens(trial, now) == []

    def test_back_to_a_gate_that_was_revoked_is_reviewed(self, world: World) -> None:
        self.history(world)
        now = content(fleet.rollout(world).stable)
        revoked = now | {"hooks": [now["hooks"][0] | {"state": "revoked"}]}
        assert bundles.loosens(now, revoked) == ["the gate block-rm would be revoked again"]

    def test_the_next_change_ends_the_hold(self, world: World) -> None:
        self.history(world)
        with acting(world.alice):
            done = bundles.roll_back(profile=world.profile, actor=world.alice.actor, serial=1)
        consent(world, done.change)
        governance.rule(world, "hardline", governance.HARDLINE)
        governance.place(world, "block-rm", "hardline")
        fourth = fleet.build(world)
        assert [hook["name"] for hook in content(fourth)["hooks"]] == ["block-rm", "hardline"]

    def test_resuming_delivers_it_again(self, world: World) -> None:
        self.history(world)
        with acting(world.alice):
            done = bundles.roll_back(profile=world.profile, actor=world.alice.actor, serial=1)
        consent(world, done.change)
        with acting(world.alice):
            rollout = bundles.resume(profile=world.profile, actor=world.alice.actor)
            assert (rollout.stable.serial, rollout.refused_digest) == (4, "")
            with pytest.raises(Conflict):
                bundles.resume(profile=world.profile, actor=world.alice.actor)

    def test_never_back_to_what_was_revoked(self, world: World) -> None:
        gate = active_gate(world)
        governance.place(world, "gate")
        fleet.build(world)
        with acting(world.bob):
            revocations.revoke(hook=gate, actor=world.bob.actor, reason="leaks")
        fleet.build(world)
        with acting(world.alice), pytest.raises(Conflict, match="revoked since: gate"):
            bundles.roll_back(profile=world.profile, actor=world.alice.actor, serial=1)

    def test_bad_input(self, world: World) -> None:
        self.history(world)
        with acting(world.alice), pytest.raises(NotFound):
            bundles.roll_back(profile=world.profile, actor=world.alice.actor, serial=99)
        with acting(world.alice), pytest.raises(Conflict, match="already"):
            bundles.roll_back(profile=world.profile, actor=world.alice.actor, serial=2)
        with acting(world.bob), pytest.raises(Forbidden):
            bundles.roll_back(profile=world.profile, actor=world.bob.actor, serial=1)

    def test_a_stale_rollback_is_not_applied(self, world: World) -> None:
        self.history(world)
        with acting(world.alice):
            done = bundles.roll_back(profile=world.profile, actor=world.alice.actor, serial=1)
        governance.rule(world, "hardline", governance.HARDLINE)
        governance.place(world, "block-rm", "hardline")
        fleet.build(world)
        with acting(world.alice), pytest.raises(changes.StaleChange):
            changes.submit(change=done.change, actor=world.alice.actor)


def test_content_is_the_same_whenever_it_is_read(world: World) -> None:
    active_gate(world)
    governance.place(world, "gate")
    bundle = fleet.build(world)
    assert bundle is not None
    with acting(world.alice):
        stored = ProfileVersion.objects.get(pk=bundle.version_id)
        assert canonical.digest(stored.content) == stored.digest
        assert Hook.objects.get(name="gate").active_version is not None
        assert rollouts.locked(world.profile).stable_id == bundle.pk
    assert settings.SIGNING_KEY_FILE.exists()
