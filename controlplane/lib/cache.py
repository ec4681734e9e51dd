"""A Redis cache whose absence slows the plane down but never stops it."""

from __future__ import annotations

import logging
from typing import Any

from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError

log = logging.getLogger(__name__)


class ResilientRedisCache(RedisCache):  # type: ignore[misc]
    """Answers as if empty while Redis is away: Postgres is the truth, the cache only saves work."""

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        try:
            return super().get(key, default, version)
        except RedisError as error:
            log.warning("cache read failed: %s", error)
            return default

    def set(self, key: Any, value: Any, *args: Any, **kwargs: Any) -> None:
        try:
            super().set(key, value, *args, **kwargs)
        except RedisError as error:
            log.warning("cache write failed: %s", error)
