"""Static files are collected again when, and only when, something that they come from has changed."""

from __future__ import annotations

from pathlib import Path

from controlplane.embedded import static
from controlplane.embedded.paths import Instance


def test_changed_file_changes_the_fingerprint(tmp_path: Path) -> None:
    sheet = tmp_path / "app" / "static" / "deep" / "a.css"
    sheet.parent.mkdir(parents=True)
    sheet.write_text("a {}")
    (tmp_path / "app" / "__init__.py").write_text("")
    before = static.fingerprint(tmp_path)
    assert static.fingerprint(tmp_path) == before
    sheet.write_text("a { color: red }")
    changed = static.fingerprint(tmp_path)
    (sheet.parent / "b.css").write_text("")
    assert len({before, changed, static.fingerprint(tmp_path)}) == 3


def test_what_was_collected_does_not_count(tmp_path: Path) -> None:
    before = static.fingerprint(tmp_path)
    static.mark(Instance(tmp_path / "var"), before)
    assert static.fingerprint(tmp_path) == before


def test_mark_goes_away_with_what_it_describes(tmp_path: Path) -> None:
    instance = Instance(tmp_path)
    assert not static.is_current(instance, "x")
    static.mark(instance, "x")
    assert static.is_current(instance, "x")
    assert not static.is_current(instance, "y")
    assert static.note(instance).parent == tmp_path / "static"
