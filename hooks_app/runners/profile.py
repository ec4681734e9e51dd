"""All Python hooks of one profile: those that may use the network live in a host apart from those that may not."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from hooks_app.engine.dispatch import Hook
from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Outcome
from hooks_app.runners.host import HOST_LIMITS, HookHost, HookReport, HostedCall, HostedHook, HostSpec
from hooks_app.runners.incarnation import LogSink
from hooks_app.runners.services import Services
from hooks_app.sandbox import Limits, SandboxConfig


class ProfileHosts:
    """Sends each call to the host that holds the hook; a secret is only in a host whose hooks declared its name."""

    def __init__(
        self, profile: str, hooks: Sequence[HostedHook], config: SandboxConfig, *, secrets: Mapping[str, str],
        home: Path | None, services: Services | None = None, log: LogSink | None = None, limits: Limits = HOST_LIMITS,
    ) -> None:  # fmt: skip
        self._hosts: list[HookHost] = []
        self._by_hook: dict[str, HookHost] = {}
        for network in (False, True):
            chosen = tuple(hook for hook in hooks if hook.network is network)
            if not chosen:
                continue
            names = {name for hook in chosen for name in hook.environment}
            environment = {name: value for name, value in secrets.items() if name in names}
            host = HookHost(HostSpec(profile, chosen, config, environment, home, network, limits), services, log)
            self._hosts.append(host)
            self._by_hook |= {hook.name: host for hook in chosen}
        self._order = [hook.name for hook in hooks]

    def start(self) -> tuple[HookReport, ...]:
        """Start the hosts and return what loaded and what did not, in the profile's order."""
        reports = {report.name: report for host in self._hosts for report in host.start()}
        return tuple(reports[name] for name in self._order)

    def call(self, hook: str, event: str, payload: Mapping[str, Any], timeout: float = 60.0) -> HostedCall:
        """Call one hook for one event."""
        host = self._by_hook.get(hook)
        if host is None:
            return HostedCall((NoVerdict(NoVerdictKind.NOT_RUNNABLE, f"{hook} is not hosted for this profile"),))
        return host.call(hook, event, payload, timeout)

    def run(self, hook: Hook, event: str, payload: Mapping[str, Any]) -> Sequence[Outcome]:
        """Call one hook as the engine's dispatcher asks; what the hook changed, the next one sees, as in Hermes."""
        done = self.call(hook.name, event, payload, hook.timeout)
        if done.changed is not None and isinstance(payload, MutableMapping):
            payload.update(done.changed)
        return done.outcomes

    def tools(self) -> list[dict[str, Any]]:
        """Return the tools that plugins offer."""
        return [tool for host in self._hosts for tool in host.tools()]

    def call_tool(self, name: str, arguments: Mapping[str, Any], timeout: float = 60.0) -> Outcome:
        """Run a plugin's tool."""
        for host in self._hosts:
            if any(name in report.tools for report in host.start()):
                return host.call_tool(name, arguments, timeout)
        return NoVerdict(NoVerdictKind.NOT_RUNNABLE, f"no plugin of this profile offers the tool {name}")

    def run_command(self, name: str, arguments: str = "", timeout: float = 60.0) -> Outcome:
        """Run a plugin's slash command."""
        for host in self._hosts:
            if any(name in report.commands for report in host.start()):
                return host.run_command(name, arguments, timeout)
        return NoVerdict(NoVerdictKind.NOT_RUNNABLE, f"no plugin of this profile offers the command /{name}")

    def close(self) -> None:
        """End the hosts."""
        for host in self._hosts:
            host.close()
