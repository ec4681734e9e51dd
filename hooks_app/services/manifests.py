"""Manifests: what consent covers, in one canonical form per kind; everything wrong is said at once, field by field.

A manifest is `{format, kind, events, files, …}`; its digest is the sha256 of its canonical JSON. Description, order and
assignment to profiles are not part of it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.errors import Invalid
from controlplane.lib import canonical
from hooks_app.engine.rule_problems import Problem, did_you_mean
from hooks_app.models import Kind
from hooks_app.services import manifest_parts as parts
from hooks_app.services.manifest_kinds import READERS
from hooks_app.services.manifest_parts import Reading, SourceFile

FORMAT = 1
FILE_KEYS = ("path", "content", "content_base64", "mode")

__all__ = ["Checked", "InvalidManifest", "SourceFile", "check", "content_as_json", "files_from_json", "is_gate"]

is_gate = parts.is_gate


class InvalidManifest(Invalid):
    """The hook cannot be registered."""

    code = "invalid_hook"

    def __init__(self, problems: Sequence[Problem]) -> None:
        first, more = problems[0], len(problems) - 1
        tail = f" ({more} more {'problem' if more == 1 else 'problems'} in details)" if more else ""
        listed = [{"field": p.path, "message": p.message, "hint": p.hint} for p in problems]
        super().__init__(f"{first}{tail}", field=first.path, problems=listed)


@dataclass(frozen=True, slots=True)
class Checked:
    """A hook that may be registered: its manifest, what that digests to, its bytes, and what is odd about it."""

    manifest: dict[str, Any]
    digest: str
    files: tuple[SourceFile, ...]
    warnings: tuple[str, ...]
    gate: bool


def check(*, name: str, body: Mapping[str, Any], files: Iterable[SourceFile] = ()) -> Checked:
    """The canonical manifest of a hook, or InvalidManifest with everything that is wrong with it."""
    kind = body.get("kind")
    if kind not in Kind.values:
        hint = did_you_mean(kind, Kind.values)
        raise InvalidManifest([Problem("kind", f"must be one of {', '.join(Kind.values)}, not {kind!r}", hint)])
    read, known = READERS[kind]
    reading = Reading(name, body, tuple(files))
    reading.problems.known_keys(body, known, "")
    entries = parts.read_files(reading)
    if entries and "files" not in known:
        reading.problems.add("files", f"a {kind} has no files")
    manifest = {"format": FORMAT, "kind": kind, **read(reading), "files": entries}
    if reading.problems.found:
        raise InvalidManifest(reading.problems.found)
    gate = is_gate(manifest["events"])
    if gate and manifest["fail_mode"] == "open":
        reading.warn("fail_mode is open: a crash, a time-out or unreadable output of this gate lets things pass")
    if manifest.get("network"):
        reading.warn("network: the hook may open connections")
    return Checked(manifest, canonical.digest(manifest), reading.files, tuple(reading.warnings), gate)


def files_from_json(value: object) -> tuple[SourceFile, ...]:
    """Files as a JSON body carries them: text in `content`, or bytes in `content_base64`, with a mode."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidManifest([Problem("files", "must be a list of {path, content, mode}")])
    return tuple(_file(index, entry) for index, entry in enumerate(value))


def _file(index: int, entry: object) -> SourceFile:
    where = f"files[{index}]"
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        raise InvalidManifest([Problem(where, "must be a mapping with a path")])
    if unknown := sorted(set(entry) - set(FILE_KEYS)):
        hint = did_you_mean(unknown[0], FILE_KEYS)
        raise InvalidManifest([Problem(f"{where}.{unknown[0]}", "unknown key", hint)])
    return SourceFile(entry["path"], _content(where, entry), _executable(where, entry.get("mode", "0644")))


def _content(where: str, entry: Mapping[str, Any]) -> bytes:
    text, encoded = entry.get("content"), entry.get("content_base64")
    if isinstance(text, str) and encoded is None:
        return text.encode()
    if isinstance(encoded, str) and text is None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidManifest([Problem(f"{where}.content_base64", "is not base64")]) from None
    raise InvalidManifest([Problem(where, "needs either content (text) or content_base64")])


def _executable(where: str, mode: object) -> bool:
    try:
        bits = int(mode, 8) if isinstance(mode, str) else -1
    except ValueError:
        bits = -1
    if not 0 <= bits <= 0o7777:
        raise InvalidManifest([Problem(f"{where}.mode", f"must be octal digits, not {mode!r}", 'such as "0755"')])
    return bool(bits & 0o111)


def content_as_json(file: SourceFile) -> dict[str, str]:
    """A file's bytes as a JSON body carries them."""
    try:
        text = file.content.decode()
    except UnicodeDecodeError:
        return {"content_base64": base64.b64encode(file.content).decode()}
    return {"content_base64": base64.b64encode(file.content).decode()} if "\0" in text else {"content": text}
