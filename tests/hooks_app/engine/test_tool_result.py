"""How tool calls ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hooks_app.engine.tool_result import Ending, blocked, ending_of


@pytest.mark.parametrize(
    ("result", "ending"),
    [
        ('{"ok": true}', Ending()),
        ('{"error": null}', Ending()),
        ('{"error": "bad"}', Ending("error", "tool_error", "bad")),
        ('{"error": {"code": 5}}', Ending("error", "tool_error", "{'code': 5}")),
        ({"error": "bad"}, Ending("error", "tool_error", "bad")),
        ("not json", Ending()),
        ("[" * 100_000, Ending()),
    ],
)
def test_ending_of(result: Any, ending: Ending) -> None:
    assert ending_of(result) == ending


def test_a_blocked_call_shows_its_message_to_the_model() -> None:
    result, ending = blocked("nö")
    assert (json.loads(result), "nö" in result) == ({"error": "nö"}, True)
    assert ending == Ending("blocked", "plugin_block", "nö")
