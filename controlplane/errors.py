"""What can go wrong in a service: each error has a stable code, an HTTP status, and its docstring as message."""

from __future__ import annotations

from typing import Any


class PlaneError(Exception):
    """Something went wrong."""

    code = "error"
    status = 400

    def __init__(self, message: str | None = None, *, field: str | None = None, **details: Any) -> None:
        self.message = message or " ".join((type(self).__doc__ or "").split())
        self.field = field
        self.details = details
        super().__init__(self.message)


class Invalid(PlaneError):
    """The value is not valid."""

    code = "invalid"


class NotFound(PlaneError):
    """There is no such thing here."""

    code = "not_found"
    status = 404


class Forbidden(PlaneError):
    """You are not allowed to do this."""

    code = "forbidden"
    status = 403


class Conflict(PlaneError):
    """The thing is in a state that does not permit this."""

    code = "conflict"
    status = 409


class PreconditionFailed(PlaneError):
    """It was changed since you read it: read it again and repeat your change."""

    code = "precondition_failed"
    status = 412


class PreconditionRequired(PlaneError):
    """Send If-Match with the ETag that you read, so that nobody's change is overwritten unseen."""

    code = "precondition_required"
    status = 428


class TeamRequired(PlaneError):
    """You belong to several teams: name one with the Caduceus-Team header or the team parameter."""

    code = "team_required"
