"""What the plugin costs a tool call."""

from __future__ import annotations

from gateway_app.bench.plugin import against_a_script, tool_calls
from tests.hermes.building import Home
from tests.hermes.fake_plane import FakePlane, content, rule


def test_hermes_tool_call_costs_a_hundredth_of_a_bash_hook_more(enrolled: Home, plane: FakePlane) -> None:
    rules = [
        rule(f"r{n}", when={"tool_input.command": {"matches": f"deploy-{n}.*prod"}}, then={"block": {"message": "no"}})
        for n in range(20)
    ]
    danger = rule("danger", when={"dangerous_command": True}, then={"ask": {"message": "?"}})
    redact = rule("keys", events=["transform_tool_result"], then={"redact": {"patterns": ["sk-[0-9]+"], "with": "x"}})
    plane.publish(content(*rules, danger, redact))
    figure = against_a_script(tool_calls(enrolled.python, enrolled.environment()))
    assert figure.ok, figure
