"""Runs inside Hermes's own virtualenv: how long a tool call takes with the plugin and without, as one JSON line."""

import json
import statistics
import time
from typing import Any

ROUNDS, CALLS = 5, 500
SCHEMA = {"name": "probe_tool", "description": "Answers at once.", "parameters": {"type": "object", "properties": {}}}
INPUT = {"command": "git push origin main", "path": "/srv/x"}


def measure() -> dict[str, Any]:
    """The medians of each round, by turns."""
    import model_tools
    from hermes_cli.plugins import discover_plugins, get_plugin_manager
    from tools.registry import registry

    discover_plugins()
    manager = get_plugin_manager()
    loaded = manager._plugins["caduceus"]
    if not loaded.enabled:
        raise SystemExit(f"the plugin did not load: {loaded.error}")
    registry.register(name="probe_tool", toolset="probe", schema=SCHEMA, handler=lambda args, **_: '{"ok": true}')

    def once() -> float:
        began = time.perf_counter()
        model_tools.handle_function_call("probe_tool", INPUT, session_id="s")
        return time.perf_counter() - began

    kept, rounds = dict(manager._hooks), []
    for _ in range(ROUNDS):
        governed = statistics.median(once() for _ in range(CALLS))
        manager._hooks.clear()
        alone = statistics.median(once() for _ in range(CALLS))
        manager._hooks.update(kept)
        rounds.append((governed, alone))
    return {"rounds": rounds}


if __name__ == "__main__":
    print("RESULT " + json.dumps(measure()), flush=True)
