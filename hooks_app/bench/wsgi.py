"""The web server's entry while the plane is measured: the plane, and a view that does nothing."""

from django.conf import settings

from controlplane.wsgi import application

__all__ = ["application"]
settings.ROOT_URLCONF = "hooks_app.bench.urls"
