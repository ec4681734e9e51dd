"""Archives as request bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.parsers import BaseParser

from controlplane.api.parsers import StrictJSON, TooLarge


class ArchiveBody(BaseParser):
    """The bytes of an archive, up to the largest body that the plane takes."""

    media_type = "application/octet-stream"

    def parse(self, stream: IO[bytes], media_type: str | None = None, context: Mapping[str, Any] | None = None) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise TooLarge(f"The archive is larger than {limit} bytes.")
        return raw


class TarBody(ArchiveBody):
    """A tar archive."""

    media_type = "application/x-tar"


class GzipBody(ArchiveBody):
    """A compressed tar archive."""

    media_type = "application/gzip"


class ZipBody(ArchiveBody):
    """A zip archive or a wheel."""

    media_type = "application/zip"


ARCHIVES = [ArchiveBody, TarBody, GzipBody, ZipBody]
JSON_OR_ARCHIVE = [StrictJSON, *ARCHIVES]
