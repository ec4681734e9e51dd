"""What every request passes through: an id, health answers, a size limit, and the scope of whoever asks."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.log import log_response

from controlplane import health, scope
from controlplane.api import errors
from controlplane.lib import logs
from controlplane.lib.ids import request_id
from controlplane.services import actors, metrics, tokens

Handler = Callable[[HttpRequest], HttpResponseBase]


class RequestId:
    """Gives each request an id that its logs, its audit entries and its answer carry."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        value = request_id()
        token = logs.request_id.set(value)
        try:
            with metrics.request(request.method or ""):
                response = self.get_response(request)
            if response.status_code >= 400:
                # Django does this too, after the id is gone; a response is logged once.
                log_response("%s: %s", response.reason_phrase, request.path, response=response, request=request)
            response["X-Request-Id"] = value
            return response
        finally:
            logs.request_id.reset(token)


class Health:
    """Answers probes before anything else can fail, whatever host name they use."""

    ROUTES: dict[str, Callable[[HttpRequest], HttpResponse]] = {
        "/healthz": health.alive,
        "/readyz": health.ready,
        "/metrics": health.metrics,
    }

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        probe = self.ROUTES.get(request.path)
        return probe(request) if probe else self.get_response(request)


class BodyLimit:
    """Refuses a body that is larger than any endpoint reads, before reading it."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        announced = request.META.get("CONTENT_LENGTH") or "0"
        if not (announced.isascii() and announced.isdigit()) or int(announced) > limit:
            return errors.response(413, "too_large", f"The body is larger than {limit} bytes.")
        if request.META.get("HTTP_TRANSFER_ENCODING"):
            return errors.response(411, "length_required", "Send a Content-Length.")
        return self.get_response(request)


class NoNul:
    """Refuses an address that holds a NUL, which no text in PostgreSQL can hold."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "\0" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            return errors.response(400, "malformed", "The address contains NUL.")
        return self.get_response(request)


class RequestScope:
    """Finds out who asks and lets the request see that actor's teams, and nothing else."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        scope.leave_behind()
        header = request.headers.get("Authorization", "")
        if header[:7].lower() == "bearer ":
            actor = tokens.actor_for(header[7:].strip())
        else:
            actor = actors.for_user(request.user) if request.user.is_authenticated else None
        request.actor = actor  # type: ignore[attr-defined]
        if actor is None:
            return self.get_response(request)
        with scope.enter(actor.scope()):
            return self.get_response(request)
