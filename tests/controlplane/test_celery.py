"""Tasks carry the scope of their team and the id of the request that sent them."""

from __future__ import annotations

from typing import Any

import pytest
from celery import shared_task

from controlplane import scope
from controlplane.celery import app
from controlplane.lib import logs
from controlplane.models import Profile
from tests.conftest import World

SEEN: dict[str, Any] = {}


@shared_task(name="tests.look_around")
def look_around(team_id: str | None = None) -> None:
    """Note what a task sees."""
    SEEN["request_id"] = logs.request_id.get()
    SEEN["scope"] = scope.current()
    SEEN["profiles"] = list(Profile.objects.values_list("name", flat=True))


@pytest.fixture
def eager() -> Any:
    """Run tasks here and now."""
    app.conf.task_always_eager = True
    yield
    app.conf.task_always_eager = False


def test_a_task_of_a_team_sees_that_team(world: World, eager: None) -> None:
    look_around.apply(kwargs={"team_id": str(world.team.pk)})
    assert SEEN["profiles"] == ["deploy-bot"]
    assert SEEN["scope"].write == world.team.pk
    assert scope.current() is None


def test_a_task_without_a_team_sees_nothing(world: World, eager: None) -> None:
    look_around.apply()
    assert SEEN["profiles"] == []


def test_a_task_continues_the_request_that_sent_it(world: World) -> None:
    with logs.bind(request_id="req-1"):
        sent = look_around.apply(headers={"caduceus_request_id": "req-1"})
    assert sent.successful()
    assert SEEN["request_id"] == "req-1"


def test_sending_puts_the_request_id_into_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}
    monkeypatch.setattr(app, "send_task", lambda *args, **options: sent.update(options))
    with logs.bind(request_id="req-2"):
        look_around.apply_async()
    assert sent["headers"]["caduceus_request_id"] == "req-2"


def test_every_scheduled_task_exists() -> None:
    app.loader.import_default_modules()
    for name, entry in app.conf.beat_schedule.items():
        assert entry["task"] in app.tasks, f"{name} names a task that nobody defines"


def test_nothing_waits_longer_than_redis_keeps_a_message() -> None:
    assert app.conf.task_time_limit < app.conf.broker_transport_options["visibility_timeout"]
