"""A Celery application with Celery's own defaults, which the package's task joins."""

from __future__ import annotations

import os

os.environ["DJANGO_SETTINGS_MODULE"] = "hooks_app.bench.reference.settings"

from celery import Celery
from django.conf import settings

import controlplane.celery  # noqa: F401 (made first, so that the next one is the current application)

app = Celery("reference", broker=settings.CELERY_BROKER_URL)
app.set_current()
app.set_default()
app.conf.update(task_ignore_result=True, task_default_queue="bench-reference", CELERY_DB_REUSE_MAX=1_000_000)
app.autodiscover_tasks(["django_webhook"])
