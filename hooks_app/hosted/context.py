"""The `ctx` that a hosted plugin registers with."""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hooks_app.engine.plugin import Manifest
from hooks_app.hosted.line import NotHosted, current

logger = logging.getLogger("hooks.host")

Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a plugin offers to the model."""

    name: str
    plugin: str
    handler: Handler
    toolset: str = ""
    schema: dict[str, Any] = field(default_factory=dict)
    check: Callable[[], Any] | None = None
    requires_env: tuple[str, ...] = ()
    description: str = ""
    emoji: str = ""

    def available(self) -> bool:
        """Whether the model may see it: its variables are set and its check, if any, says yes."""
        if any(not os.environ.get(name) for name in self.requires_env):
            return False
        try:
            return self.check is None or bool(self.check())
        except Exception as error:
            logger.warning("check_fn of tool %s raised: %s", self.name, error)
            return False

    def describe(self) -> dict[str, Any]:
        """Return what the owner lists about it."""
        found = {"name": self.name, "plugin": self.plugin, "toolset": self.toolset, "schema": self.schema}
        return found | {"available": self.available(), "description": self.description, "emoji": self.emoji}


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command, or with `setup` a command of the command line."""

    name: str
    plugin: str
    handler: Handler
    description: str = ""
    args_hint: str = ""
    setup: Handler | None = None

    def run_slash(self, arguments: str) -> Any:
        """Run it as `/name arguments` and return its text."""
        answer = self.handler(arguments)
        return run_coroutine(answer) if inspect.iscoroutine(answer) else answer

    def run_cli(self, argv: list[str]) -> Any:
        """Run it as `hermes name argv`."""
        parser = argparse.ArgumentParser(prog=f"hermes {self.name}", description=self.description)
        if self.setup is not None:
            self.setup(parser)
        parsed = parser.parse_args(argv)
        return (getattr(parsed, "func", None) or self.handler)(parsed)


def run_coroutine(coroutine: Any) -> Any:
    """Run a coroutine to its end on a loop of its own."""
    import asyncio

    return asyncio.run(coroutine)


class HostedContext:
    """Notes what a plugin wants; nothing takes effect before `register()` has returned."""

    def __init__(self, manifest: Manifest, registry: Registry) -> None:
        self.manifest = manifest
        self.hooks: list[tuple[str, Handler]] = []
        self.tools: list[Tool] = []
        self.commands: list[Command] = []
        self.skills: dict[str, str] = {}
        self._registry = registry

    @property
    def profile_name(self) -> str:
        """The profile this host belongs to."""
        return self._registry.profile

    def register_hook(self, hook_name: str, callback: Handler) -> None:
        """Subscribe a callback to an event."""
        self.hooks.append((hook_name, callback))

    def register_tool(
        self, name: str, toolset: str = "", schema: dict[str, Any] | None = None, handler: Handler | None = None,
        check_fn: Callable[[], Any] | None = None, requires_env: list[str] | None = None, is_async: bool = False,
        description: str = "", emoji: str = "", override: bool = False,
    ) -> None:  # fmt: skip
        """Offer a tool to the model."""
        if handler is None or not callable(handler):
            raise TypeError(f"tool {name!r} has no handler")
        tool = Tool(
            name, str(self.manifest.name), handler, toolset or str(self.manifest.name), schema or {}, check_fn,
            tuple(requires_env or ()), description or str((schema or {}).get("description", "")), emoji,
        )  # fmt: skip
        self.tools.append(tool)

    def register_command(self, name: str, handler: Handler, description: str = "", args_hint: str = "") -> None:
        """Offer a slash command."""
        clean = name.lower().strip().lstrip("/").replace(" ", "-")
        if not clean:
            logger.warning("Plugin '%s' tried to register a command with an empty name.", self.manifest.name)
            return
        self.commands.append(
            Command(clean, str(self.manifest.name), handler, description or "Plugin command", args_hint)
        )

    def register_cli_command(
        self,
        name: str,
        help: str,
        setup_fn: Handler,
        handler_fn: Handler | None = None,
        description: str = "",
    ) -> None:
        """Offer a subcommand of the command line."""
        handler = handler_fn or (lambda args: args)
        self.commands.append(Command(name, str(self.manifest.name), handler, description or help, setup=setup_fn))

    def register_skill(self, name: str, path: Path, description: str = "") -> None:
        """Offer a bundled skill under `plugin:name`."""
        if ":" in name or not name:
            raise ValueError(f"Skill name '{name}' must not contain ':'")
        if not Path(path).exists():
            raise FileNotFoundError(f"SKILL.md not found at {path}")
        self.skills[f"{self.manifest.name}:{name}"] = Path(path).read_text(encoding="utf-8")

    def dispatch_tool(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Run a tool, without hooks: one of this host's own, else one of the agent's through the owner."""
        return self._registry.run_tool(tool_name, args)

    def inject_message(self, content: str, role: str = "user") -> bool:
        """Put a message into the running conversation, where there is one; False where there is none, as in Hermes."""
        try:
            return bool(current().ask("message.inject", content=content, role=role))
        except NotHosted as error:
            logger.error("inject_message of plugin %s did nothing: %s", self.manifest.name, error)
            return False

    @property
    def llm(self) -> Any:
        """Not offered to hosted plugins."""
        raise NotHosted("ctx.llm is not offered to hosted plugins; use run_agent.AIAgent")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("register_"):
            raise AttributeError(f"'PluginContext' object has no attribute {name!r}")
        raise NotHosted(f"ctx.{name}() has no other end in a hook host; this plugin needs a Hermes agent of its own")


class Registry:
    """All that the plugins of this host registered, by name."""

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self.tools: dict[str, Tool] = {}
        self.commands: dict[tuple[str, bool], Command] = {}
        self.skills: dict[str, str] = {}

    def accept(self, context: HostedContext) -> None:
        """Take over what a plugin noted, once its `register()` has returned."""
        for tool in context.tools:
            self.tools[tool.name] = tool
        for command in context.commands:
            self.commands[command.name, command.setup is not None] = command
        self.skills |= context.skills

    def run_tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Run a tool and return its JSON text; what it raises becomes an error for the model, as in Hermes."""
        tool = self.tools.get(name)
        if tool is None:
            return str(current().ask("tool.dispatch", name=name, arguments=arguments))
        try:
            answer = tool.handler(arguments)
            if inspect.iscoroutine(answer):
                answer = run_coroutine(answer)
        except Exception as error:
            return json.dumps({"error": f"Tool execution failed: {type(error).__name__}: {error}"})
        if not isinstance(answer, str):
            logger.warning("tool %s returned %s instead of a JSON string", name, type(answer).__name__)
            return json.dumps(answer, ensure_ascii=False, default=str)
        return answer
