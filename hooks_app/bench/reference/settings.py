"""The plane's settings with the django-webhook package added.

A pool would be closed by Celery around every task of a forked worker, so the reference keeps one plain connection.
"""

from controlplane.settings import *  # noqa: F403
from controlplane.settings import DATABASES, INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "django_webhook"]
DJANGO_WEBHOOK = {"MODELS": []}
DATABASES["default"]["OPTIONS"].pop("pool")
DATABASES["default"]["CONN_MAX_AGE"] = None
