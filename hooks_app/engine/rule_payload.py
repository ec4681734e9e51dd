"""What rules see of a payload: fields by dotted path, in whichever spelling they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hooks_app.engine import danger
from hooks_app.engine.danger import Finding

MISSING: Any = object()
"""What `Payload.get` answers for a field that is not there."""

_SPELLINGS = {
    "tool_input": ("args", "arguments"),
    "args": ("tool_input", "arguments"),
    "arguments": ("args", "tool_input"),
    "exit_code": ("returncode",),
    "returncode": ("exit_code",),
}
_COMMAND_FIELDS = ("tool_input.command", "command")


class Payload:
    """One event's payload; every field and the danger of a command are worked out at most once."""

    __slots__ = ("_dangers", "_fields", "_host", "event", "mapping", "tool")

    def __init__(self, event: str, mapping: Mapping[str, Any], host: danger.Host | None = None) -> None:
        self.event = event
        self.mapping = mapping
        self.tool = mapping.get("tool_name")
        self._host = host
        self._fields: dict[str, Any] = {}
        self._dangers: dict[str, tuple[Finding, ...]] = {}

    def get(self, path: str) -> Any:
        """The value at the path, or MISSING."""
        found = self._fields.get(path, self)
        if found is self:
            found = self._fields[path] = self._resolve(path)
        return found

    def _resolve(self, path: str) -> Any:
        head, _, rest = path.partition(".")
        value = self._top(head)
        if value is MISSING and head == "extra" and rest:
            head, _, rest = rest.partition(".")
            value = self._top(head)
        return _descend(value, rest.split(".")) if rest else value

    def _top(self, name: str) -> Any:
        if name in self.mapping:
            return self.mapping[name]
        for spelling in _SPELLINGS.get(name, ()):
            if spelling in self.mapping:
                return self.mapping[spelling]
        extra = self.mapping.get("extra")
        return extra[name] if isinstance(extra, Mapping) and name in extra else MISSING

    def command(self, path: str = "") -> Any:
        """The command to judge: at the path, else where tool calls and terminal output carry it."""
        for candidate in (path,) if path else _COMMAND_FIELDS:
            value = self.get(candidate)
            if value is not MISSING:
                return value
        return MISSING

    def judged(self, path: str = "") -> str | None:
        """The command as the text to be judged, a list of words as the command it makes; None where there is none."""
        command = self.command(path)
        if isinstance(command, list | tuple):
            return " ".join(map(str, command))
        return command if isinstance(command, str) else None

    def dangers(self, path: str = "") -> tuple[Finding, ...]:
        """What is dangerous about the command."""
        command = self.judged(path)
        if command is None:
            return ()
        found = self._dangers.get(command)
        if found is None:
            found = self._dangers[command] = danger.findings(command, self._host)
        return found

    @property
    def danger_keys(self) -> tuple[str, ...]:
        """The keys of every danger that a condition asked about so far."""
        keys = (finding.key for found in self._dangers.values() for finding in found)
        return tuple(dict.fromkeys(keys))


def _descend(value: Any, steps: list[str]) -> Any:
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step, MISSING)
        elif isinstance(value, list | tuple) and step.isascii() and step.isdigit():
            value = value[int(step)] if len(step) < 7 and int(step) < len(value) else MISSING
        else:
            return MISSING
    return value
