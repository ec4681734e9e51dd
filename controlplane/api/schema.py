"""How views become the API's description."""

from __future__ import annotations

import re

from drf_spectacular.openapi import AutoSchema


class PathSchema(AutoSchema):
    """Names an operation after its method and path, so that no two share a name and none changes by itself."""

    def get_operation_id(self) -> str:
        path = self.path.removeprefix("/api/v1/")
        words = re.findall(r"\w+", path.replace("{", "by_").replace("}", ""))
        return "_".join([self.method.lower(), *words])
