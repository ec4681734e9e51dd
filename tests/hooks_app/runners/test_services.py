"""What hooks ask of their owner over the line: live objects, shims, and what is not offered."""

from __future__ import annotations

import threading
from typing import Any

from hooks_app.engine.verdict import NoVerdict, Returned
from hooks_app.runners.services import SERVICES, ServiceTable
from tests.hooks_app.runners.conftest import MakeHost, answering, plugin

MESSAGE: dict[str, Any] = {
    "event": {
        "text": "hi",
        "source": {"platform": "telegram", "chat_id": "c", "chat_type": "dm", "user_id": "u"},
    },
    "gateway": {"platforms": ["telegram", "slack"]},
    "session_store": {},
}


class Recorder(ServiceTable):
    """Offers every service and records what was asked."""

    def __init__(self, **answers: Any) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        names = {service.replace(".", "_"): service for service in SERVICES}

        def service(name: str) -> Any:
            def function(**arguments: Any) -> Any:
                self.asked.append((name, arguments))
                return answers.get(name.replace(".", "_"))

            return function

        super().__init__({name: service(name) for name in names.values()})


def fire(host: Any, name: str) -> Any:
    (outcome,) = host.call(name, "pre_gateway_dispatch", MESSAGE).outcomes
    return outcome.value if isinstance(outcome, Returned) else outcome


def test_the_live_objects_of_a_message(make_host: MakeHost) -> None:
    services = Recorder(adapter_send={"success": True, "message_id": "m1"}, session_get={"session_id": "s1"})
    body = (
        "event, gateway, store = kw['event'], kw['gateway'], kw['session_store']\n"
        "sent = gateway.adapters[event.source.platform].send('owner', event.text)\n"
        "session = store.get_or_create_session(event.source)\n"
        "store.append_to_transcript(session.session_id, {'role': 'user', 'content': event.text})\n"
        "slack = 'slack' in gateway.adapters\n"
        "return [sent.message_id, event.source.platform.value, event.internal, event.message_id, slack]"
    )
    host = make_host(answering("live", body, "pre_gateway_dispatch"), services=services)
    assert fire(host, "live") == ["m1", "telegram", False, None, True]
    assert services.asked[0] == (
        "adapter.send",
        {"platform": "telegram", "chat_id": "owner", "content": "hi", "reply_to": None, "metadata": None},
    )
    assert services.asked[1][1]["source"]["user_id"] == "u"
    assert services.asked[2] == (
        "session.append",
        {"session_id": "s1", "message": {"role": "user", "content": "hi"}},
    )


def test_a_send_can_be_awaited(make_host: MakeHost) -> None:
    services = Recorder(adapter_send={"message_id": "m2"})
    body = (
        "import asyncio\n"
        "async def go(): return (await kw['gateway'].adapters['slack'].send('c', 'x')).message_id\n"
        "return asyncio.run(go())"
    )
    assert fire(make_host(answering("aw", body, "pre_gateway_dispatch"), services=services), "aw") == "m2"


def test_what_nobody_offers_raises_and_is_logged(make_host: MakeHost) -> None:
    logged: list[tuple[str, ...]] = []
    body = "kw['session_store'].append_to_transcript('s', {})"
    host = make_host(answering("loud", body, "pre_gateway_dispatch"), log=lambda *record: logged.append(record))
    outcome = fire(host, "loud")
    assert isinstance(outcome, NoVerdict)
    assert "NotHosted: session.append is not available" in outcome.detail
    assert logged == [
        (
            "ERROR",
            "hooks.host",
            "session.append is not available to hosted hooks here: nothing is connected to it",
        )
    ]


def test_other_parts_of_the_gateway_are_not_there(make_host: MakeHost) -> None:
    host = make_host(answering("curious", "return kw['gateway'].config", "pre_gateway_dispatch"), services=Recorder())
    assert "the gateway offers only adapters" in str(fire(host, "curious"))


def test_dispatch_tool_finds_own_tools_first(make_host: MakeHost) -> None:
    services = Recorder(tool_dispatch='{"from": "agent"}')
    code = (
        "import json\n"
        "def register(ctx):\n"
        "    ctx.register_tool('own', schema={}, handler=lambda args, **kw: json.dumps({'own': args}))\n"
        "    run = ctx.dispatch_tool\n"
        "    ctx.register_hook('pre_gateway_dispatch', lambda **kw: [run('own', {'a': 1}), run('web', {})])\n"
    )
    host = make_host(plugin("dispatcher", code), services=services)
    assert fire(host, "dispatcher") == ['{"own": {"a": 1}}', '{"from": "agent"}']
    assert services.asked == [("tool.dispatch", {"name": "web", "arguments": {}})]


def test_inject_message_is_false_and_loud_without_a_conversation(make_host: MakeHost) -> None:
    code = "def register(ctx):\n    ctx.register_hook('pre_gateway_dispatch', lambda **kw: ctx.inject_message('x'))\n"
    host = make_host(plugin("inject", code))
    call = host.call("inject", "pre_gateway_dispatch", MESSAGE)
    assert call.outcomes == (Returned(False),)
    assert call.log[0][0] == "ERROR"
    assert "inject_message of plugin inject did nothing" in call.log[0][2]


def test_a_slow_service_does_not_hold_up_other_calls(make_host: MakeHost) -> None:
    release = threading.Event()
    services = ServiceTable({"agent.run": lambda **_: release.wait(10) and "done"})
    ask = answering("ask", "from run_agent import AIAgent\nreturn AIAgent(model='m').chat('x')")
    host = make_host(ask, answering("quick", "return 'quick'"), services=services)
    host.start()
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(host.call("ask", "pre_tool_call", {}).outcomes))
    thread.start()
    assert host.call("quick", "pre_tool_call", {}).outcomes == (Returned("quick"),)
    release.set()
    thread.join()
    assert answers == [(Returned("done"),)]


def test_a_failing_service_does_not_leak_its_reason(make_host: MakeHost) -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError("password=hunter2")

    host = make_host(
        answering("ask", "from run_agent import AIAgent\nreturn AIAgent().chat('x')"),
        services=ServiceTable({"agent.run": fail}),
    )
    (outcome,) = host.call("ask", "pre_tool_call", {}).outcomes
    assert isinstance(outcome, NoVerdict)
    assert "agent.run failed: RuntimeError" in outcome.detail
    assert "hunter2" not in outcome.detail
