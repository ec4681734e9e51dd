"""Hosted profiles: one host each, owned by one process, taken over when that process dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.services import profiles
from hooks_app.engine.verdict import NoVerdict, Returned
from hooks_app.models import Hook, HostLease, Run
from hooks_app.runners import host as runner
from hooks_app.services import changes, hooks, hosting, manifests, secrets
from tests.conftest import World, build_world
from tests.hooks_app.governance import happened, place, report

COUNTER = """
seen = []

def remember(tool_name="", **kwargs):
    seen.append(tool_name)
    return {"context": f"{len(seen)} calls in process"}

def register(ctx):
    ctx.register_hook("pre_llm_call", remember)
    ctx.register_hook("post_tool_call", lambda **kwargs: seen.append("x"))
"""


@pytest.fixture
def hosted(committed_world: World) -> Iterator[World]:
    """A hosted profile with a plugin that counts."""
    host(committed_world, COUNTER)
    yield committed_world
    hosting.close_all()


def host(world: World, code: str, **body: Any) -> None:
    """Let the profile live here, with this plugin."""
    with scope.team(world.team.pk), transaction.atomic():
        world.profile = profiles.change(profile=world.profile, actor=SYSTEM, values={"hosted": True})
    approve(world, code, **body)
    place(world, "counter")


def approve(world: World, code: str, **body: Any) -> Hook:
    """Register the plugin as Alice and consent as Bob."""
    files = manifests.files_from_json(
        [
            {"path": "plugin.yaml", "content": "name: counter\nkind: standalone\nversion: '1'\n"},
            {"path": "__init__.py", "content": code},
        ]
    )
    with scope.team(world.team.pk), transaction.atomic():
        put = hooks.put(
            team=world.team, actor=world.alice.actor, name="counter", body={"kind": "plugin", **body}, files=files
        )
        assert put.change is not None
        change = changes.submit(change=put.change, actor=world.alice.actor)
        changes.decide(change=change, actor=world.bob.actor, approve=True, digest=change.digest)
        return put.hook


def call(world: World) -> Any:
    """Ask the plugin, wherever it lives."""
    outcomes = hosting.call(
        team_id=world.team.pk, profile=world.profile.name, profile_id=world.profile.pk, hook="counter",
        event="pre_llm_call", payload={"user_message": "hi"}, timeout=10,
    )  # fmt: skip
    return [o.value if isinstance(o, Returned) else o for o in outcomes if isinstance(o, NoVerdict) or o.value]


def test_state_survives_between_events(hosted: World) -> None:
    assert call(hosted) == [{"context": "1 calls in process"}]
    assert call(hosted) == [{"context": "2 calls in process"}]


def test_another_process_asks_the_owner(hosted: World) -> None:
    assert call(hosted) == [{"context": "1 calls in process"}]
    answers = in_another_process(hosted)
    assert answers == [{"context": "2 calls in process"}]
    assert call(hosted) == [{"context": "3 calls in process"}]
    with scope.team(hosted.team.pk), transaction.atomic():
        lease = HostLease.objects.get(profile=hosted.profile)
        assert (lease.owner, lease.fence) == (hosting.me(), 1)


def test_a_newly_approved_version_replaces_the_running_one(hosted: World) -> None:
    call(hosted)
    approve(hosted, COUNTER.replace("calls in process", "calls since the change"))
    assert call(hosted) == [{"context": "1 calls since the change"}]


def test_a_killed_owner_is_succeeded(hosted: World, monkeypatch: pytest.MonkeyPatch) -> None:
    context = multiprocessing.get_context("fork")
    connection.close()
    ready = context.Event()
    owner = context.Process(target=own_until_killed, args=(hosted, ready))
    owner.start()
    assert ready.wait(30)
    os.kill(owner.pid, signal.SIGKILL)
    owner.join()
    with scope.team(hosted.team.pk), transaction.atomic():
        # The lease runs out by itself; the test does not wait for it.
        HostLease.objects.filter(profile=hosted.profile).update(expires_at=timezone.now())
    time.sleep(0.05)
    assert call(hosted) == [{"context": "1 calls in process"}]
    with scope.team(hosted.team.pk), transaction.atomic():
        assert HostLease.objects.get(profile=hosted.profile).fence == 2


def test_a_lost_lease_ends_the_host(hosted: World) -> None:
    call(hosted)
    with scope.team(hosted.team.pk), transaction.atomic():
        until = timezone.now() + hosting.LEASE
        HostLease.objects.filter(profile=hosted.profile).update(owner="somebody else", expires_at=until, address="/no")
    hosting._owned[hosted.profile.pk].valid_until = 0
    assert not hosting.take(hosted.team.pk, hosted.profile.name, hosted.profile.pk)
    assert hosted.profile.pk not in hosting._owned


def test_a_reported_event_reaches_the_hosted_plugin(hosted: World) -> None:
    from hooks_app.models import EventBatch
    from hooks_app.services import dispatching, runs

    assert report(hosted.alice.api(), happened()).status_code in {200, 201, 202}
    with scope.team(hosted.team.pk):
        with transaction.atomic():
            batch = EventBatch.objects.latest("created_at")
        dispatching.dispatch(team_id=str(hosted.team.pk), batch_id=str(batch.pk))
        with transaction.atomic():
            run = Run.objects.get(hook__name="counter")
        runs.carry_out(team_id=str(hosted.team.pk), run_id=str(run.pk))
        with transaction.atomic():
            run.refresh_from_db()
    assert run.state == "done", run.reason
    assert call(hosted) == [{"context": "2 calls in process"}]


def in_another_process(world: World) -> Any:
    """Make the same call in a forked process."""
    context = multiprocessing.get_context("fork")
    connection.close()
    answers = context.Queue()
    child = context.Process(target=lambda: answers.put(call(world)))
    child.start()
    found = answers.get(timeout=30)
    child.join()
    return found


def own_until_killed(world: World, ready: Any) -> None:
    """Become the owner and wait for the end."""
    call(world)
    ready.set()
    time.sleep(60)


def test_a_hook_that_hangs_while_loading_keeps_nobody_else_waiting(
    hosted: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "LOAD_SECONDS", 5.0)
    rival = build_world()
    hang = "import time\ntime.sleep(60)\ndef register(ctx):\n    ctx.register_hook('pre_llm_call', print)\n"
    host(rival, hang)
    assert call(hosted) == [{"context": "1 calls in process"}]
    waiting = threading.Thread(target=lambda: (call(rival), connection.close()))
    waiting.start()
    time.sleep(1)
    assert call(hosted) == [{"context": "2 calls in process"}]
    assert waiting.is_alive()
    waiting.join()


def test_a_changed_secret_reaches_the_hook_and_another_one_leaves_its_state_alone(committed_world: World) -> None:
    world = committed_world
    code = COUNTER.replace("in process", "{os.environ['TOKEN']}").replace("seen = []", "import os\nseen = []")
    host(world, code, environment=["TOKEN"])
    answers = []
    for name, value in (("TOKEN", "one"), ("OTHER", "x"), ("TOKEN", "two")):
        with scope.team(world.team.pk), transaction.atomic():
            secrets.put(profile=world.profile, actor=world.alice.actor, name=name, value=value)
        answers += call(world)
    hosting.close_all()
    assert [answer["context"] for answer in answers] == ["1 calls one", "2 calls one", "1 calls two"]
