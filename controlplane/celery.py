"""The workers' wiring: queues, schedule, and the base task that carries scope and request id."""

from __future__ import annotations

import os
from typing import Any
from uuid import UUID

from celery import Celery, Task
from celery.signals import setup_logging, worker_init, worker_process_init, worker_ready
from kombu import Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

from django.conf import settings
from django.db import connections, transaction

from controlplane import scope
from controlplane.lib import logs


class PlaneTask(Task):
    """A task that names its team by `team_id` runs in that team's scope, under the id of the request that sent it."""

    acks_late = True
    reject_on_worker_lost = True

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        headers = {**(options.pop("headers", None) or {}), "caduceus_request_id": logs.request_id.get() or ""}
        return super().apply_async(args, kwargs, headers=headers, **options)

    def delay_on_commit(self, **kwargs: Any) -> None:
        """Wake a worker once the caller's rows are committed; while the broker is away, a sweep finds them."""
        transaction.on_commit(lambda: self.delay(**kwargs), robust=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        sent_by = (self.request.headers or {}).get("caduceus_request_id") or self.request.id or ""
        token, task = logs.request_id.set(sent_by), logs.task_id.set(self.request.id or "")
        try:
            team_id = kwargs.get("team_id")
            if team_id is None:
                return super().__call__(*args, **kwargs)
            with scope.team(UUID(str(team_id))):
                return super().__call__(*args, **kwargs)
        finally:
            logs.task_id.reset(task)
            logs.request_id.reset(token)


app = Celery("caduceus", task_cls=PlaneTask)
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 600},
    task_ignore_result=True,
    task_default_queue="default",
    task_queues=[Queue(name) for name in ("default", "events", "deliveries", "gateway", "notifications")],
    task_routes={
        "gateway_app.*": {"queue": "gateway"},
        "hooks_app.tasks_approvals.deliver_notification": {"queue": "notifications"},
        "hooks_app.tasks_deliveries.*": {"queue": "deliveries"},
        "hooks_app.tasks_events.*": {"queue": "events"},
    },
    task_time_limit=300,
    task_soft_time_limit=270,
    worker_prefetch_multiplier=1,
    worker_max_tasks_per_child=10_000,
    timezone="UTC",
    beat_schedule={
        "sweep-bundles": {"task": "gateway_app.tasks.sweep_bundles", "schedule": 1.0, "options": {"expires": 2}},
        "sweep-rollouts": {"task": "gateway_app.tasks.sweep_rollouts", "schedule": 5.0, "options": {"expires": 10}},
        "watch-agents": {"task": "gateway_app.tasks.watch_agents", "schedule": 30.0, "options": {"expires": 60}},
        "seal": {"task": "controlplane.tasks.seal", "schedule": 1.0, "options": {"expires": 5}},
        "checkpoint": {"task": "controlplane.tasks.checkpoint", "schedule": 60.0, "options": {"expires": 60}},
        "forget-idempotency": {"task": "controlplane.tasks.forget_idempotency", "schedule": 3600.0},
        "sweep-approvals": {
            "task": "hooks_app.tasks_approvals.sweep_approvals",
            "schedule": 1.0,
            "options": {"expires": 5},
        },
        "remind-approvers": {
            "task": "hooks_app.tasks_approvals.remind_approvers",
            "schedule": 5.0,
            "options": {"expires": 10},
        },
        "sweep-notifications": {
            "task": "hooks_app.tasks_approvals.sweep_notifications",
            "schedule": 15.0,
            "options": {"expires": 30},
        },
        "expire-break-glass": {
            "task": "hooks_app.tasks.expire_break_glass",
            "schedule": 30.0,
            "options": {"expires": 30},
        },
        "resume-test-runs": {"task": "hooks_app.tasks.resume_test_runs", "schedule": 60.0, "options": {"expires": 60}},
        "sweep-events": {"task": "hooks_app.tasks_events.sweep_events", "schedule": 10.0, "options": {"expires": 20}},
        "keep-events": {"task": "hooks_app.tasks_events.keep_events", "schedule": 3600.0, "options": {"expires": 3600}},
        "deliver": {"task": "hooks_app.tasks_deliveries.deliver", "schedule": 1.0, "options": {"expires": 2}},
        "sweep-deliveries": {
            "task": "hooks_app.tasks_deliveries.sweep_deliveries",
            "schedule": 10.0,
            "options": {"expires": 20},
        },
        "forget-deliveries": {"task": "hooks_app.tasks_deliveries.forget_deliveries", "schedule": 3600.0},
        "heartbeat": {"task": "controlplane.tasks.heartbeat", "schedule": 5.0, "options": {"expires": 10}},
        "heartbeat-gateway": {
            "task": "controlplane.tasks.heartbeat",
            "schedule": 5.0,
            "args": ["gateway"],
            "options": {"queue": "gateway", "expires": 10},
        },
    },
)
app.autodiscover_tasks(["controlplane", "hooks_app", "gateway_app"])
for related in ("tasks_events", "tasks_approvals", "tasks_deliveries"):
    app.autodiscover_tasks(["hooks_app"], related_name=related)


@worker_init.connect
def refuse_an_unsafe_start(**_: Any) -> None:
    """A worker reads every team's rows, so it starts only as somebody whom row-level security binds."""
    from controlplane import checks

    checks.require_safe_start()


@worker_process_init.connect
def leave_the_parents_connections(**_: Any) -> None:
    """A pool must not cross a fork: the child opens its own."""
    for connection in connections.all(initialized_only=True):
        connection.inc_thread_sharing()
        connection.close()
        if hasattr(connection, "close_pool"):
            connection.close_pool()


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Celery must not replace the plane's log configuration."""


@worker_ready.connect
def say_so_at_once(sender: Any, **_: Any) -> None:
    """A worker that is ready need not wait for its first heartbeat; its name says which queue it serves."""
    from controlplane import health

    health.beat(sender.hostname.partition("@")[0])
