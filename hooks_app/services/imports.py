"""Import a Hermes home: everything in it becomes a draft to be reviewed, its variables become secrets.

Consent is never imported: neither `hooks_auto_accept` nor an entry of the allowlist file puts anything into force.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any, Protocol

from django.db import transaction

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import PlaneError
from controlplane.models import Profile, Role
from controlplane.services import audit
from hooks_app.engine.shell import script_path
from hooks_app.models import Hook, ListKind
from hooks_app.services import allowlists, changes, home_reading, hooks, profile_hooks, secrets
from hooks_app.services.archives import Tree
from hooks_app.services.home_reading import Home
from hooks_app.services.manifest_parts import SourceFile

REASON = "imported from a Hermes home"
SETTING_KEYS = ("gateway", "platforms", "display", "approvals", "security")
"""The parts of `config.yaml` whose loss the report mentions."""


class Taker(Protocol):
    """Proposes what `config.yaml` says about settings, as a draft."""

    def __call__(
        self, *, profile: Profile, actor: Actor, config: Mapping[str, Any], reason: str
    ) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Which dotted keys were taken and what became of each, and which were not and why."""


_takers: list[Taker] = []


def offer(taker: Taker) -> None:
    """Let a part of the plane take the settings of imported homes; an app does this once, when it is ready."""
    if taker not in _takers:
        _takers.append(taker)


@dataclass(frozen=True, slots=True)
class Item:
    """One thing of the home, and what became of it."""

    kind: str
    name: str
    detail: str = ""


@dataclass(slots=True)
class Report:
    """What was taken, what was skipped and why, and what Hermes itself would have warned about."""

    taken: list[Item] = field(default_factory=list)
    skipped: list[Item] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The report as the API and `--json` show it."""
        return asdict(self)


@transaction.atomic
def run(*, profile: Profile, actor: Actor, tree: Tree) -> Report:
    """Take a home's hooks, plugins, allowlists and settings as drafts, and its variables as the profile's secrets."""
    actor.require(profile.team_id, Role.AUTHOR, Role.OWNER)
    changes.person(actor)
    home = home_reading.read(tree)
    with scope.writing(profile.team_id):
        importing = _Import(profile, actor, home)
        importing.everything()
        report = importing.report
        details = {"taken": len(report.taken), "skipped": len(report.skipped)}
        audit.record("home.imported", actor=actor, team=profile.team_id, target=profile, details=details)
    return report


class _Import:
    """One import under way."""

    def __init__(self, profile: Profile, actor: Actor, home: Home) -> None:
        self.profile, self.actor, self.home = profile, actor, home
        self.report = Report()
        self.registered: list[str] = []
        self.commands: set[str] = set()

    def everything(self) -> None:
        """Take one part of the home after the other."""
        if self.home.accepts_unseen:
            self.skip("setting", "hooks_auto_accept", "is never taken as consent: every hook is reviewed")
        self.shell_hooks()
        self.python_hooks("hooks", "gateway", "HOOK.yaml")
        self.python_hooks("plugins", "plugin", "plugin.yaml", "plugin.yml")
        self.arrange()
        self.consents()
        self.command_grants()
        self.senders()
        self.settings()
        self.variables()
        left_out = {p: why for p, why in self.home.tree.left_out.items() if not p.startswith(("hooks/", "plugins/"))}
        self.report.warnings += self.home.warnings
        self.report.warnings += [f"left out: {path} {why}" for path, why in left_out.items()]

    def skip(self, kind: str, name: str, why: str) -> None:
        self.report.skipped.append(Item(kind, name, why))

    def take(self, kind: str, name: str, detail: str) -> None:
        self.report.taken.append(Item(kind, name, detail))

    def put(self, kind: str, name: str, body: Mapping[str, Any], files: Iterable[SourceFile]) -> None:
        """Register one hook, or note why it cannot be."""
        try:
            with transaction.atomic():
                done = hooks.put(
                    team=self.profile.team, actor=self.actor, name=name, body=body, files=files, reason=REASON
                )
        except PlaneError as error:
            self.skip(kind, name, error.message)
            return
        self.registered.append(name)
        state = "in force already" if done.change is None else f"change {done.change.state}"
        self.take(kind, name, f"version {done.version.number}, {state}")
        if done.version.gate:
            self.report.warnings.append(f"{name}: this gate is closed when it gives no verdict; in Hermes it was open")
        self.report.warnings += [f"{name}: {warning}" for warning in done.version.warnings]

    def shell_hooks(self) -> None:
        for group in self.home.shell_hooks():
            script = self.home.script(group.command)
            name = self.free_name(PurePosixPath(script_path(group.command)).stem, "shell", group.command)
            body = {
                "kind": "shell", "command": group.command, "events": list(group.events), "matcher": group.matcher,
                "timeout": group.timeout,
            }  # fmt: skip
            before = len(self.registered)
            self.put("shell", name, body, [script] if script else [])
            if len(self.registered) > before:
                self.commands.add(group.command)

    def python_hooks(self, parent: str, kind: str, *manifests: str) -> None:
        for directory, below in self.home.directories(parent, *manifests):
            if below.left_out:
                self.skip(kind, directory, "; ".join(f"{path} {why}" for path, why in below.left_out.items()))
            else:
                self.put(kind, self.free_name(directory, kind), {"kind": kind}, below.as_files())

    def free_name(self, wish: str, kind: str, command: str = "") -> str:
        """A name that no hook of another kind or another command has."""
        base = re.sub(r"[^a-z0-9_-]+", "-", wish.lower()).strip("-_")[:56] or kind
        for number in range(1, 1000):
            name = base if number == 1 else f"{base}-{number}"
            hook = Hook.objects.for_team(self.profile.team_id).filter(name=name).first()
            if hook is None and name not in self.registered:
                return name
            if hook is not None and name not in self.registered and hook.kind == kind and _same_command(hook, command):
                return name
        return f"{base}-{len(self.registered)}"

    def arrange(self) -> None:
        """Propose to give the profile its hooks, at the end of its order."""
        places = [{"hook": p.hook, "mode": p.mode} for p in profile_hooks.current_places(self.profile)]
        known = {place["hook"] for place in places}
        places += [{"hook": name, "mode": "enforce"} for name in self.registered if name not in known]
        done = profile_hooks.arrange(profile=self.profile, actor=self.actor, places=places, reason=REASON)
        if not done.applied:
            self.take("profile", self.profile.name, f"order of hooks, change draft: {'; '.join(done.reasons)}")

    def consents(self) -> None:
        for entry in self.home.consent.approvals:
            event, command = (entry.get("event"), entry.get("command")) if isinstance(entry, dict) else (None, None)
            if not isinstance(event, str) or not isinstance(command, str):
                self.skip("shell consent", str(entry)[:80], "is not an approval that Hermes would read")
            elif command in self.commands:
                self.take("shell consent", f"{event} {command}", "comes with the review of the hook's bytes")
            else:
                self.allow(ListKind.SHELL, event, command)

    def command_grants(self) -> None:
        listed = self.home.config.get("command_allowlist")
        for value in listed if isinstance(listed, list) else ():
            self.allow(ListKind.COMMAND, "", str(value))

    def senders(self) -> None:
        for platform, user in dict.fromkeys(self.home.senders()):
            self.allow(ListKind.SENDER, platform, user)

    def allow(self, kind: str, where: str, value: str) -> None:
        name = f"{where} {value}".strip()
        try:
            with transaction.atomic():
                allowlists.propose(
                    profile=self.profile, actor=self.actor, kind=kind, list_scope=where, value=value, reason=REASON
                )
        except PlaneError as error:
            self.skip(f"{kind} allowlist", name, error.message)
        else:
            self.take(f"{kind} allowlist", name, "change draft")

    def settings(self) -> None:
        """Hand settings to the parts of the plane that have them."""
        known: set[str] = set()
        for taker in _takers:
            taken, refused = taker(profile=self.profile, actor=self.actor, config=self.home.config, reason=REASON)
            for key, detail in taken.items():
                self.take("setting", key, detail)
            for key, why in refused.items():
                self.skip("setting", key, why)
            known |= {key.split(".")[0] for key in (*taken, *refused)}
        for key in SETTING_KEYS:
            if key in self.home.config and key not in known:
                self.skip("setting", key, "has no counterpart in the plane: it stays with the agent")

    def variables(self) -> None:
        for name, value in self.home.variables.items():
            if name.endswith(("_ALLOWED_USERS", "_ALLOW_ALL_USERS")):
                continue
            try:
                with transaction.atomic():
                    secrets.put(profile=self.profile, actor=self.actor, name=name, value=value)
            except PlaneError as error:
                self.skip("variable", name, error.message)
            else:
                self.take("variable", name, "stored as a secret")


def _same_command(hook: Hook, command: str) -> bool:
    if not command:
        return True
    version = hook.versions.first()
    return version is not None and version.manifest.get("command") == command


audit.register({"home.imported": "{actor} imported a Hermes home into {target}: {taken} taken, {skipped} skipped"})
