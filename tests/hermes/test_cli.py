"""Hermes's own questions on the command line, answered from the plane."""

from __future__ import annotations

import pytest

from tests.hermes.building import Home, finish
from tests.hermes.fake_plane import FakePlane, content


@pytest.mark.parametrize(("state", "choice", "kept"), [("approved", "once", False), ("denied", "deny", True)])
def test_hermes_prompt_is_answered_from_the_plane(
    enrolled: Home, plane: FakePlane, state: str, choice: str, kept: bool
) -> None:
    enrolled.prepare_config({"approvals": {"mode": "manual", "timeout": 60}})
    enrolled.env["HERMES_INTERACTIVE"] = "1"
    plane.publish(content(agent={"answer_approvals": True}))
    (enrolled.path.parent / "keep").mkdir()
    process = enrolled.start("start(); result = terminal('rm -rf keep')")
    asked = plane.wait_for(lambda: list(plane.approvals.values()))[0]
    assert asked["pattern_keys"] == ["recursive delete"]
    plane.answer(state, choice=choice, decided_by="bob")
    finish(process)
    assert (enrolled.path.parent / "keep").exists() is kept
    told = [e["payload"]["choice"] for e in plane.events.values() if e["event"] == "post_approval_response"]
    assert told == [choice]
