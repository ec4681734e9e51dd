"""Allowlists and profiles: what lets more through waits for a second person, also in the database."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError
from django.utils import timezone

from controlplane.errors import Invalid
from hooks_app.engine.consent import Allowlist
from hooks_app.engine.consent import register as register_in_hermes
from hooks_app.models import AllowlistEntry, ProfileHook, State
from hooks_app.services import allowlists, profile_hooks, renderings, widening
from hooks_app.services.widening import Place
from tests.conftest import World
from tests.hooks_app.governance import place
from tests.hooks_app.registry import acting, active_gate, consent


def entry(world: World, **changes: object) -> AllowlistEntry:
    """A reviewed entry."""
    wanted = {"kind": "sender", "list_scope": "telegram", "value": "42", "reason": "our user"} | changes
    with acting(world.alice):
        change = allowlists.propose(profile=world.profile, actor=world.alice.actor, **wanted)
    assert consent(world, change).state == State.APPLIED
    with acting(world.alice):
        return AllowlistEntry.objects.get(change=change)


def test_an_entry_carries_who_why_and_an_end(world: World) -> None:
    end = timezone.now() + timedelta(days=1)
    made = entry(world, expires_at=end)
    assert (made.added_by_id, made.reason, made.state) == (world.alice.user.pk, "our user", "live")
    assert abs(made.expires_at - end) < timedelta(milliseconds=1)


def test_a_later_end_is_reviewed_and_an_earlier_one_is_not(world: World) -> None:
    now = timezone.now()
    made = entry(world, expires_at=now + timedelta(days=2))
    with acting(world.alice), pytest.raises(Invalid, match="propose it"):
        allowlists.shorten(entry=made, actor=world.alice.actor, expires_at=now + timedelta(days=3))
    with acting(world.alice):
        assert (
            allowlists.shorten(entry=made, actor=world.alice.actor, expires_at=now + timedelta(days=1)).state == "live"
        )
    longer = entry(world, expires_at=now + timedelta(days=9))
    with acting(world.alice):
        assert AllowlistEntry.objects.get(pk=made.pk).state == "ended"
        assert list(AllowlistEntry.objects.for_team(world.team).live()) == [longer]


def test_an_entry_cannot_be_made_or_widened_by_sql(world: World) -> None:
    made = entry(world, expires_at=timezone.now() + timedelta(days=1))
    with pytest.raises(DatabaseError, match="only a reviewed change"), acting(world.alice):
        AllowlistEntry.objects.create(
            team=world.team, profile=world.profile, kind="sender", scope="telegram", value="*", reason="x",
            added_by=world.alice.user, change_id=made.change_id,
        )  # fmt: skip
    for values in ({"value": "*"}, {"expires_at": None}, {"scope": "discord"}):
        with pytest.raises(DatabaseError, match="narrower"), acting(world.alice):
            AllowlistEntry.objects.filter(pk=made.pk).update(**values)


def test_shell_consent_renders_as_hermes_reads_it(world: World) -> None:
    active_gate(world)
    entry(world, kind="shell", list_scope="post_tool_call", value="notify-send hi")
    place(world, "gate")
    with acting(world.alice):
        files = {file.path: file.content.decode() for file in renderings.render(world.profile).files}
    allowlist = Allowlist.parse(files["shell-hooks-allowlist.json"])
    assert allowlist.render() == files["shell-hooks-allowlist.json"]
    hooks = {
        "pre_tool_call": [{"command": "~/.hermes/agent-hooks/gate.sh"}, {"command": "other"}],
        "post_tool_call": [{"command": "notify-send hi"}],
    }
    loaded = register_in_hermes({"hooks": hooks}, allowlist, env={}, at="", script_mtime=lambda command: None)
    assert [hook.command for hook in loaded.hooks] == ["~/.hermes/agent-hooks/gate.sh", "notify-send hi"]


def test_an_expired_consent_is_not_rendered(world: World) -> None:
    made = entry(world, kind="shell", list_scope="post_tool_call", value="notify-send hi")
    with acting(world.alice):
        AllowlistEntry.objects.filter(pk=made.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
        assert renderings.consent(world.profile, []).approvals == ()


def test_a_gate_cannot_be_taken_out_of_a_profile_by_sql(world: World) -> None:
    active_gate(world)
    place(world, "gate")
    with pytest.raises(DatabaseError, match="takes a gate out"), acting(world.alice):
        ProfileHook.objects.filter(profile=world.profile).delete()
    with pytest.raises(DatabaseError, match="takes a gate out"), acting(world.alice):
        ProfileHook.objects.filter(profile=world.profile).update(mode="observe")


def test_a_reviewed_arrangement_takes_effect(world: World) -> None:
    active_gate(world)
    place(world, "gate")
    with acting(world.alice):
        wanted = [{"hook": "gate", "mode": "observe"}]
        done = profile_hooks.arrange(profile=world.profile, actor=world.alice.actor, places=wanted)
    assert done.reasons == ("the gate gate is only observed",)
    consent(world, done.change)
    with acting(world.alice):
        assert world.profile.hooks.get().mode == "observe"


GATE, LOG = Place("gate", gate=True), Place("log")


@pytest.mark.parametrize(
    ("before", "after", "reviewed"),
    [
        ([GATE], [], True),
        ([LOG], [], False),
        ([GATE], [GATE, LOG], True),
        ([GATE], [LOG, GATE], True),
        ([LOG, GATE], [GATE, LOG], False),
        ([GATE, Place("b", gate=True)], [Place("b", gate=True), GATE], True),
        ([GATE], [Place("gate", "observe", gate=True)], True),
        ([Place("gate", "observe", gate=True)], [GATE], False),
        ([], [Place("net", receives=True)], True),
        ([], [GATE], True),
        ([GATE, LOG], [GATE, LOG], False),
    ],
)
def test_what_counts_as_letting_more_through(before: list[Place], after: list[Place], reviewed: bool) -> None:
    assert bool(widening.profile_hooks(before, after)) is reviewed
