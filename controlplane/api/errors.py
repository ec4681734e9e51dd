"""One error format for everything that the API refuses."""

from __future__ import annotations

import logging
import sys
from typing import Any

from django.core.exceptions import DisallowedHost, PermissionDenied, RequestDataTooBig
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from controlplane.errors import PlaneError
from controlplane.lib import logs
from controlplane.services.metrics import ERRORS

log = logging.getLogger(__name__)


def body(code: str, message: str, *, field: str | None = None, **details: Any) -> dict[str, Any]:
    """The error format: a machine's code, a person's sentence, and the field where there is one."""
    ERRORS.labels(code).inc()
    error: dict[str, Any] = {"code": code, "message": message, "field": field, "request_id": logs.request_id.get()}
    if details:
        error["details"] = details
    return {"error": error}


def response(status: int, code: str, message: str, *, field: str | None = None) -> HttpResponse:
    """An error outside of DRF, in the same format."""
    return JsonResponse(body(code, message, field=field), status=status)


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: every known error becomes the one format, an unknown one stays a 500."""
    if isinstance(error, PlaneError):
        _roll_back(context)
        return Response(body(error.code, error.message, field=error.field, **error.details), status=error.status)
    if isinstance(error, Http404):
        error = exceptions.NotFound("There is no such thing here.")
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    elif isinstance(error, RequestDataTooBig):
        _roll_back(context)
        return Response(body("too_large", "The body is too large."), status=413)
    if not isinstance(error, exceptions.APIException):
        return None
    _roll_back(context)
    headers = {}
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait) + 1)
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    return Response(_from_drf(error), status=error.status_code, headers=headers)


def _roll_back(context: dict[str, Any]) -> None:
    """Undo what the request did; a view that opens its own short transactions has none left to undo."""
    match = getattr(context.get("request"), "resolver_match", None)
    if not getattr(getattr(match, "func", None), "_non_atomic_requests", None):
        set_rollback()


def _from_drf(error: exceptions.APIException) -> dict[str, Any]:
    if isinstance(error, exceptions.ValidationError):
        problems = list(_flatten(error.detail))
        field, first = (
            problems[0] if problems else (None, exceptions.ErrorDetail("The request is not valid.", "invalid"))
        )
        code = "invalid"
        details = (
            {"problems": [{"field": name, "message": str(text)} for name, text in problems]} if problems[1:] else {}
        )
        return body(code, str(first), field=field, **details)
    code = {"authentication_failed": "not_authenticated"}.get(error.default_code, error.default_code)
    return body(code, str(error.detail))


def _flatten(detail: Any, path: str = "") -> Any:
    if isinstance(detail, dict):
        for key, value in detail.items():
            name = "" if key == "non_field_errors" else str(key)
            yield from _flatten(value, f"{path}.{name}".strip("."))
    elif isinstance(detail, list):
        for index, value in enumerate(detail):
            nested = isinstance(value, dict | list)
            yield from _flatten(value, f"{path}[{index}]" if nested else path)
    else:
        yield path or None, detail


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without a valid token, told in the right format for whoever sent it."""
    if request.path.startswith("/api/"):
        message = "The form's security token is missing or old: reload the page and send it again."
        return response(403, "csrf_failed", message)
    return render(request, "403_csrf.html", {"reason": reason}, status=403)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """A request that Django itself refuses, such as one for a host name that is not ours."""
    strange_host = isinstance(exception, DisallowedHost)
    if request.path.startswith("/api/"):
        message = "This host name is not in ALLOWED_HOSTS." if strange_host else "The request cannot be read."
        return response(400, "malformed", message)
    return render(request, "400.html", {"strange_host": strange_host}, status=400)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """An address that nothing answers to."""
    if request.path.startswith("/api/"):
        return response(404, "not_found", "There is no such address. The API is described at /api/v1/docs/.")
    from django.views.defaults import page_not_found

    return page_not_found(request, exception or Http404())


def unavailable(request: HttpRequest) -> HttpResponse:
    """The database is away for the moment: the same request may be sent again."""
    message = "The database does not answer at the moment: send it again, with the same id or Idempotency-Key."
    if request.path.startswith("/api/"):
        answer = response(503, "unavailable", message)
    else:
        answer = HttpResponse(message, status=503, content_type="text/plain; charset=utf-8")
    answer["Retry-After"] = "1"
    return answer


def server_error(request: HttpRequest) -> HttpResponse:
    """A fault of ours; the request id leads to the log."""
    if isinstance(sys.exception(), OperationalError):
        return unavailable(request)
    if request.path.startswith("/api/"):
        return response(500, "server_error", "Something broke on our side. Please tell the operator the request id.")
    from django.views.defaults import server_error as page

    return page(request)
