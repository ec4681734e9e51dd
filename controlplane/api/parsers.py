"""Reading request bodies: JSON, within limits, with an error that says where it went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import APIException
from rest_framework.parsers import BaseParser

from controlplane.errors import PlaneError
from controlplane.lib.json_body import BodyError, loads_bounded


class TooLarge(APIException):
    """The body is larger than this endpoint reads."""

    status_code = 413
    default_code = "too_large"


class Malformed(PlaneError):
    """The body is not acceptable JSON."""

    code = "malformed"


class StrictJSON(BaseParser):
    """JSON up to the view's limit, without nesting, numbers or characters that would hurt later."""

    media_type = "application/json"

    def parse(self, stream: IO[bytes], media_type: str | None = None, context: Mapping[str, Any] | None = None) -> Any:
        view = (context or {}).get("view")
        limit = getattr(view, "max_body_bytes", settings.MAX_BODY_BYTES)
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise TooLarge(f"The body is larger than {limit} bytes.")
        try:
            return loads_bounded(raw, max_bytes=limit)
        except BodyError as error:
            raise Malformed(error.message, field=error.field) from None
