"""Who asks: the scope middleware found out; these tell DRF."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request


class Bearer(BaseAuthentication):
    """A token in the Authorization header."""

    def authenticate(self, request: Request) -> tuple[Any, str] | None:
        if request.headers.get("Authorization", "")[:7].lower() != "bearer ":
            return None
        if request._request.actor is None:
            raise AuthenticationFailed("The token is unknown, expired or revoked.")
        return request._request.actor, "token"

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class Session(SessionAuthentication):
    """A logged-in browser, with CSRF protection."""

    def authenticate(self, request: Request) -> tuple[Any, str] | None:
        if super().authenticate(request) is None:
            return None
        return request._request.actor, "session"


class BearerScheme(OpenApiAuthenticationExtension):
    """How the API description names tokens."""

    target_class = Bearer
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "A token that starts with cad_."}


class SessionScheme(OpenApiAuthenticationExtension):
    """How the API description names logged-in browsers."""

    target_class = Session
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}
