"""Endpoints that agents call all the time: plain Django views for tokens, with the errors of the rest of the API."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from controlplane.actor import Actor
from controlplane.api import errors
from controlplane.errors import Forbidden, Invalid, PlaneError
from controlplane.lib.buckets import Buckets, rate
from controlplane.lib.json_body import MAX_NODES, BodyError, loads_bounded
from hooks_app.engine.rule_problems import did_you_mean

RATE = "120000/min"
"""Per actor and process: it protects the plane from a loop gone wild, it is not an account."""

buckets = Buckets(*rate(RATE))
Handler = Callable[[HttpRequest, Actor], bytes]
View = Callable[..., HttpResponse]


class NotAuthenticated(PlaneError):
    """Send a token: Authorization: Bearer cad_…"""

    code = "not_authenticated"
    status = 401


class Throttled(PlaneError):
    """Too many requests."""

    code = "throttled"
    status = 429


class TooLarge(PlaneError):
    """The body is too large."""

    code = "too_large"
    status = 413


class Malformed(PlaneError):
    """The body is not acceptable JSON."""

    code = "malformed"


def token_view(ability: str, handler: Handler, *, status: int = 200) -> View:
    """A POST for tokens that have this ability; outside a transaction, so that the handler opens what it needs."""

    @functools.wraps(handler)
    def view(request: HttpRequest) -> HttpResponse:
        try:
            body = handler(request, _allowed(request, ability))
            return HttpResponse(body, content_type="application/json", status=status)
        except PlaneError as error:
            told = errors.body(error.code, error.message, field=error.field, **error.details)
            response = JsonResponse(told, status=error.status)
            if error.status == 401:
                response["WWW-Authenticate"] = "Bearer"
            return response

    return view


def post_or(post: View, others: View, cls: type) -> View:
    """One address: POST is the plain view, everything else the class, which also describes both in the schema."""

    @csrf_exempt
    @transaction.non_atomic_requests
    def view(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if request.method == "POST":
            return post(request)
        with transaction.atomic():
            return others(request, **kwargs)

    view.cls = cls  # type: ignore[attr-defined]
    view.initkwargs = {}  # type: ignore[attr-defined]
    return view


def _allowed(request: HttpRequest, ability: str) -> Actor:
    actor: Actor | None = request.actor  # type: ignore[attr-defined]
    if actor is None or actor.kind != "token":
        raise NotAuthenticated
    if not actor.can(ability):
        raise Forbidden(f"This token does not have the ability {ability}.")
    if wait := buckets.take(actor.id):
        raise Throttled(retry_after=int(wait) + 1)
    return actor


def body(
    request: HttpRequest, *, known: tuple[str, ...], limit: int | None = None, nodes: int = MAX_NODES
) -> dict[str, Any]:
    """The request's JSON object, within limits and without fields that nobody knows."""
    most = limit or settings.MAX_BODY_BYTES
    try:
        value = loads_bounded(request.body, max_bytes=most, max_nodes=nodes)
    except RequestDataTooBig:
        raise TooLarge(f"The body is larger than {most} bytes.") from None
    except BodyError as error:
        kind = TooLarge if error.code == "too_large" else Malformed
        raise kind(error.message, field=error.field) from None
    return fields(value, known)


def fields(value: Any, known: tuple[str, ...], where: str = "") -> dict[str, Any]:
    """The value as an object that has only known fields."""
    if not isinstance(value, dict):
        raise Invalid("This must be an object.", field=where or None)
    for name in value:
        if name not in known:
            place = f"{where}.{name}" if where else name
            raise Invalid(f"There is no field {name}; {did_you_mean(name, known)}", field=place)
    return value


def text(value: Mapping[str, Any], name: str, *, most: int, required: bool = False, where: str = "") -> str:
    """A text field, within its length."""
    found = value.get(name)
    place = f"{where}.{name}" if where else name
    if found is None and not required:
        return ""
    if not isinstance(found, str) or (required and not found):
        raise Invalid("This text is required." if found is None or found == "" else "This must be text.", field=place)
    if len(found) > most:
        raise Invalid(f"Use at most {most} characters.", field=place)
    return found
