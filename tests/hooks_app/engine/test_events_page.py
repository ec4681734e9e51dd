"""The page of events is generated from the catalogue and current."""

from pathlib import Path

from hooks_app.engine.events import render_markdown

PAGE = Path(__file__).resolve().parents[3] / "docs" / "events.md"


def test_the_committed_page_is_current() -> None:
    assert PAGE.read_text() == render_markdown(), "run: python3 manage.py events_page"
