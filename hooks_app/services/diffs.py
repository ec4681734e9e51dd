"""Readable differences: the specification first, then file by file, with what does not meet the eye made visible."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

CONTEXT = 3
MAX_LINES = 4000
MAX_TEXT = 512 * 1024
_HIDDEN = re.compile(
    r"[^\t\x20-\x7e\u00a0-\ud7ff\ue000-\U0010ffff]|[\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)

Load = Callable[[str], bytes]
"""Finds the bytes of a digest."""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a difference, in the lines of a unified diff."""

    title: str
    status: str
    lines: tuple[str, ...] = ()
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The section as the API shows it."""
        return {"title": self.title, "status": self.status, "lines": list(self.lines), "note": self.note}


def visible(text: str) -> str:
    """Text with control characters, bidi marks and invisible characters spelt out."""
    return _HIDDEN.sub(lambda match: f"\N{SYMBOL FOR SUBSTITUTE FORM TWO}<U+{ord(match.group()):04X}>", text)


def values(title: str, before: Any, after: Any) -> Section:
    """The difference between two JSON values."""
    return _section(title, _written(before), _written(after), None)


def manifests(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, load: Load) -> list[Section]:
    """The difference between two manifests: everything but the bytes, then every file that differs."""
    spec = values("specification", _without_files(before), _without_files(after))
    old, new = _files(before), _files(after)
    return [spec, *(_file(path, old.get(path), new.get(path), load) for path in sorted(old | new))]


def _without_files(manifest: Mapping[str, Any] | None) -> Any:
    return None if manifest is None else {key: value for key, value in manifest.items() if key != "files"}


def _files(manifest: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    return {entry["path"]: entry for entry in (manifest or {}).get("files", ())}


def _written(value: Any) -> str | None:
    return None if value is None else json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)


def _file(path: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, load: Load) -> Section:
    note = ""
    if old and new and old["mode"] != new["mode"]:
        note = f"mode {old['mode']} → {new['mode']}"
    elif new and not old:
        note = f"mode {new['mode']}"
    if old and new and old["digest"] == new["digest"]:
        return Section(path, "changed" if note else "unchanged", note=note)
    texts = [_text(entry, load) for entry in (old, new)]
    if any(isinstance(text, int) for text in texts):
        sizes = " → ".join(f"{entry['size']} bytes" if entry else "nothing" for entry in (old, new))
        return Section(path, _status(old, new), note=f"not shown as text: {sizes}; {note}".rstrip("; "))
    before, after = (text if isinstance(text, str) else None for text in texts)
    return _section(path, before, after, note)


def _text(entry: Mapping[str, Any] | None, load: Load) -> str | int | None:
    """The text of a file, None without one, its size where it is not text or too long."""
    if entry is None:
        return None
    if entry["size"] > MAX_TEXT:
        return int(entry["size"])
    try:
        return load(entry["digest"]).decode()
    except UnicodeDecodeError:
        return int(entry["size"])


def _section(title: str, before: str | None, after: str | None, note: str | None) -> Section:
    old, new = (text.splitlines() if text is not None else [] for text in (before, after))
    lines = [visible(line) for line in difflib.unified_diff(old, new, n=CONTEXT, lineterm="")][2:]
    remark = note or ""
    if any("\N{SYMBOL FOR SUBSTITUTE FORM TWO}" in line for line in lines):
        remark = f"{remark}; holds characters that cannot be seen".lstrip("; ")
    if len(lines) > MAX_LINES:
        remark = f"{remark}; {len(lines) - MAX_LINES} more lines are not shown: read the file itself".lstrip("; ")
    return Section(title, _status(before, after), tuple(lines[:MAX_LINES]), remark)


def _status(before: Any, after: Any) -> str:
    if before is None:
        return "added"
    if after is None:
        return "removed"
    return "unchanged" if before == after else "changed"
