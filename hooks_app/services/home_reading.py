"""What a Hermes home says, read without acting on it: configuration, scripts, consent file, variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from controlplane.errors import Invalid
from hooks_app.engine import shell
from hooks_app.engine.consent import Allowlist, accepts_unseen
from hooks_app.engine.shell import ShellHook
from hooks_app.services import yaml_text
from hooks_app.services.archives import Tree
from hooks_app.services.manifest_parts import SourceFile

CONFIG_BYTES = 256 * 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class ShellGroup:
    """One command with one matcher and timeout, and all the events that `config.yaml` gives it."""

    command: str
    matcher: str | None
    timeout: int
    events: tuple[str, ...]


@dataclass(slots=True)
class Home:
    """A Hermes home, as far as the plane takes an interest in it."""

    tree: Tree
    config: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    consent: Allowlist = field(default_factory=Allowlist)
    warnings: list[str] = field(default_factory=list)

    @property
    def accepts_unseen(self) -> bool:
        """Whether Hermes would approve unseen hooks here; the plane never takes that as consent."""
        return accepts_unseen(self.config, self.variables)

    def shell_hooks(self) -> list[ShellGroup]:
        """The entries of the `hooks:` block, equal ones together; what Hermes would pass over becomes a warning."""
        parsed = shell.parse_block(self.config.get("hooks"))
        self.warnings += parsed.warnings
        groups: dict[tuple[str, str | None, int], list[ShellHook]] = {}
        for hook in parsed.hooks:
            groups.setdefault((hook.command, hook.matcher, hook.timeout), []).append(hook)
        return [
            ShellGroup(command, matcher, timeout, tuple(dict.fromkeys(hook.event for hook in hooks)))
            for (command, matcher, timeout), hooks in groups.items()
        ]

    def script(self, command: str) -> SourceFile | None:
        """The script of a command, where it lies inside the home."""
        word = shell.script_path(command)
        for prefix in ("~/.hermes/", "$HERMES_HOME/", "${HERMES_HOME}/"):
            if word.startswith(prefix):
                return self._named(word.removeprefix(prefix))
        return None if word.startswith("~") else self._named(word) or self._ending(word)

    def _ending(self, word: str) -> SourceFile | None:
        """The file of an absolute path into a home that lay elsewhere: the longest end that is a file of this one."""
        parts = PurePosixPath(word).parts
        ends = ("/".join(parts[start:]) for start in range(1, len(parts) - 1))
        return next((found for end in ends if (found := self._named(end))), None)

    def _named(self, path: str) -> SourceFile | None:
        found = self.tree.get(PurePosixPath(path).as_posix())
        return SourceFile(PurePosixPath(path).name, found.content, found.executable) if found else None

    def directories(self, parent: str, *manifests: str) -> Iterator[tuple[str, Tree]]:
        """The directories below `hooks` or `plugins` with one of these manifests, one level of category allowed."""
        for name in self.tree.directories(parent):
            below = self.tree.below(f"{parent}/{name}")
            if any(below.get(manifest) for manifest in manifests):
                yield name, below
                continue
            for nested in below.directories():
                inner = below.below(nested)
                if any(inner.get(manifest) for manifest in manifests):
                    yield nested, inner

    def senders(self) -> Iterator[tuple[str, str]]:
        """Platform and sender of every allowlist variable; `*` where everybody is let in."""
        for name, value in self.variables.items():
            if name.endswith("_ALLOWED_USERS"):
                platform = name.removesuffix("_ALLOWED_USERS").lower()
                yield from ((platform, user.strip()) for user in value.split(",") if user.strip())
            elif name.endswith("_ALLOW_ALL_USERS") and value.strip().lower() in ("1", "true", "yes"):
                yield name.removesuffix("_ALLOW_ALL_USERS").lower(), "*"


def read(tree: Tree) -> Home:
    """Read a home; a broken `config.yaml` is an error, since most of the home would be lost silently."""
    home = Home(tree)
    if file := tree.get("config.yaml"):
        try:
            config = yaml_text.read(file.content, max_bytes=CONFIG_BYTES)
        except yaml_text.YamlRefused as error:
            raise Invalid(f"config.yaml: {error}", field="config.yaml") from None
        if config is not None and not isinstance(config, dict):
            raise Invalid("config.yaml must hold a mapping.", field="config.yaml")
        home.config = config or {}
    if file := tree.get(".env"):
        home.variables = parse_variables(file.content.decode(errors="replace"))
    if file := tree.get("shell-hooks-allowlist.json"):
        home.consent = Allowlist.parse(file.content.decode(errors="replace"))
    return home


def parse_variables(text: str) -> dict[str, str]:
    """The variables of a `.env` file; lines that are none are passed over, as by every reader of such files."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not _NAME.fullmatch(name):
            continue
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        else:
            value = value.split(" #", 1)[0].rstrip()
        found[name] = value
    return found
