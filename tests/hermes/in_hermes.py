# Runs inside Hermes's own virtualenv, before the code of a test.
import json as _json
import logging as _logging
import os as _os  # noqa: F401 for the code of tests
import sys as _sys
import time as _time

_logging.basicConfig(level=_logging.WARNING, stream=_sys.stderr)


def _finish(result):
    print("\nRESULT " + _json.dumps(result, default=str), flush=True)


def start():
    """Load plugins, then shell hooks, in the order of every Hermes start."""
    from agent.shell_hooks import register_from_config
    from hermes_cli.config import load_config
    from hermes_cli.plugins import discover_plugins, get_plugin_manager

    discover_plugins()
    register_from_config(load_config(), accept_hooks=False)
    loaded = get_plugin_manager()._plugins["caduceus"]
    assert loaded.enabled, loaded.error
    return loaded.module


def agent():
    return _sys.modules["hermes_plugins.caduceus.process"].agent


def call(name, args, **more):
    """One tool call, through Hermes's own dispatch; the parsed result."""
    import model_tools

    text = model_tools.handle_function_call(name, args, session_id="s1", task_id="t1", **more)
    return _json.loads(text) if isinstance(text, str) and text[:1] in "{[" else text


def terminal(command):
    return call("terminal", {"command": command})


def until(condition, seconds=20):
    ends = _time.monotonic() + seconds
    while _time.monotonic() < ends:
        found = condition()
        if found:
            return found
        _time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def converse(text, url):
    """One turn of a real agent."""
    from run_agent import AIAgent

    one = AIAgent(
        base_url=url, api_key="none", provider="custom", model="scripted", quiet_mode=True, max_iterations=5,
        enabled_toolsets=["terminal"], skip_context_files=True, skip_memory=True, session_id="s1", platform="cli",
    )  # fmt: skip
    return one.run_conversation(text)


def gateway():
    """A real runner with one chat platform in memory, started as far as hooks go."""
    import asyncio

    from gateway.config import GatewayConfig, Platform, PlatformConfig
    from gateway.platforms.base import BasePlatformAdapter, MessageEvent, SendResult
    from gateway.run import GatewayRunner
    from gateway.session import SessionSource

    class Chat(BasePlatformAdapter):
        def __init__(self):
            super().__init__(PlatformConfig(enabled=True, token="t"), Platform.TELEGRAM)
            self.sent = []

        async def connect(self, **_):
            return True

        async def disconnect(self):
            return None

        async def send(self, chat_id, content, reply_to=None, metadata=None):
            self.sent.append(content)
            return SendResult(success=True, message_id=str(len(self.sent)))

        async def send_typing(self, chat_id, metadata=None):
            return None

        async def get_chat_info(self, chat_id):
            return {"name": "chat", "type": "dm"}

    runner = GatewayRunner(GatewayConfig())
    chat = Chat()
    runner.adapters[Platform.TELEGRAM] = chat
    runner.hooks.discover_and_load()
    chat.set_message_handler(runner._handle_message)

    async def message(text):
        source = SessionSource(
            platform=Platform.TELEGRAM, chat_id="1001", user_id="1001", user_name="ann", chat_type="dm"
        )
        return await runner._handle_message(MessageEvent(text=text, source=source, message_id="m1"))

    return runner, chat, message, asyncio.run
