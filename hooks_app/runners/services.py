"""What hosted hooks may ask of their owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

SERVICES = (
    "adapter.send", "session.append", "session.load", "session.get", "agent.run", "agent.model", "tool.dispatch",
    "message.inject", "config.load",
)  # fmt: skip
"""All services that the child's stand-ins call."""


class ServiceMissing(LookupError):
    """The owner does not offer this service to hosted hooks."""


class Services(Protocol):
    """The owner's end of the line; called from threads of the host."""

    def call(self, service: str, arguments: Mapping[str, Any]) -> Any:
        """Do what is asked and return a JSON value; raise ServiceMissing for what is not offered."""


class NoServices:
    """Offers nothing, and says so."""

    def call(self, service: str, arguments: Mapping[str, Any]) -> Any:
        """Refuse."""
        raise ServiceMissing(f"{service} is not available to hosted hooks here: nothing is connected to it")


class ServiceTable:
    """Services given as functions by name, each called with the arguments as keywords."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._functions = functions

    def call(self, service: str, arguments: Mapping[str, Any]) -> Any:
        """Call the function of this name."""
        function = self._functions.get(service)
        if function is None:
            return NoServices().call(service, arguments)
        return function(**arguments)
