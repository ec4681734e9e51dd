"""What the plugin costs a tool call."""

from __future__ import annotations

from tests.hermes.building import Home
from tests.hermes.fake_plane import FakePlane, content, rule

MEASURE = """
import statistics
start()
from hermes_cli.plugins import get_plugin_manager
from tools.registry import registry
schema = {"name": "probe_tool", "description": "d", "parameters": {"type": "object", "properties": {}}}
registry.register(name="probe_tool", toolset="probe", schema=schema, handler=lambda args, **_: '{"ok": true}')
import model_tools

def once():
    began = _time.perf_counter()
    model_tools.handle_function_call("probe_tool", {"command": "git push origin main", "path": "/srv/x"}, session_id="s")
    return _time.perf_counter() - began

def median():
    return statistics.median(once() for _ in range(500))

hooks = get_plugin_manager()._hooks
kept = dict(hooks)
rounds = []
for _ in range(5):
    with_plugin = median()
    hooks.clear()
    without = median()
    hooks.update(kept)
    rounds.append((with_plugin - without) * 1e6)
result = {"added_us": min(rounds), "all": rounds}
"""


def test_hermes_tool_call_costs_at_most_200_microseconds_more(enrolled: Home, plane: FakePlane) -> None:
    rules = [
        rule(f"r{n}", when={"tool_input.command": {"matches": f"deploy-{n}.*prod"}}, then={"block": {"message": "no"}})
        for n in range(20)
    ]
    danger = rule("danger", when={"dangerous_command": True}, then={"ask": {"message": "?"}})
    redact = rule("keys", events=["transform_tool_result"], then={"redact": {"patterns": ["sk-[0-9]+"], "with": "x"}})
    plane.publish(content(*rules, danger, redact))
    measured = enrolled.run(MEASURE)
    print(measured)
    assert measured["added_us"] <= 200
