"""The hook host: loading as Hermes does, state, and what one hook can do to the others (nothing)."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Returned
from hooks_app.runners import incarnation
from hooks_app.runners.host import HOST_LIMITS, QUARANTINE_AFTER, HookHost
from hooks_app.runners.services import ServiceTable
from tests.hooks_app.runners.conftest import MakeHost, answering, gateway, plugin

CALL: dict[str, Any] = {"tool_name": "terminal", "args": {"command": "ls"}}
COUNTER = answering("counter", "state['n'] += 1\nreturn str(state['n'])")


def value(host: HookHost, hook: str, event: str = "pre_tool_call", timeout: float = 10.0) -> Any:
    """Return what a hook answered, or the way in which it did not."""
    (outcome,) = host.call(hook, event, CALL, timeout).outcomes
    return outcome.value if isinstance(outcome, Returned) else outcome.kind


def test_state_is_kept_between_events(make_host: MakeHost) -> None:
    host = make_host(COUNTER)
    assert [value(host, "counter") for _ in range(3)] == ["1", "2", "3"]


def test_what_loaded_is_reported_with_its_digest(make_host: MakeHost) -> None:
    broken = plugin("broken", "def register(ctx):\n    ctx.register_hook('pre_tool_call', print)\n    1/0\n")
    host = make_host(COUNTER, broken, plugin("empty", "x = 1\n"), gateway("headless", "x = 1\n"))
    reports = {report.name: report for report in host.start()}
    assert reports["counter"].loaded
    assert reports["counter"].digest == "sha-counter"
    assert reports["broken"].error == "ZeroDivisionError: division by zero"
    assert reports["empty"].error == "no register() function"
    assert "Skipping headless: no 'handle' function found" in reports["headless"].error


def test_a_plugin_that_fails_half_way_contributes_nothing(make_host: MakeHost) -> None:
    code = (
        "def register(ctx):\n    ctx.register_hook('pre_tool_call', lambda **k: 'live')\n    raise RuntimeError('x')\n"
    )
    assert value(make_host(plugin("half", code)), "half") is NoVerdictKind.NOT_RUNNABLE


def test_loading_twice_registers_once(make_host: MakeHost) -> None:
    host = make_host(COUNTER)
    host.start()
    host.start()
    assert value(host, "counter") == "1"


def test_relative_imports_and_both_spellings(make_host: MakeHost) -> None:
    code = "from .more import cb\ndef register(ctx):\n    ctx.register_hook('transform_tool_result', cb)\n"
    more = (
        "def cb(args, arguments, result, telemetry_schema_version, **kw):\n    return f'{args == arguments} {result}'\n"
    )
    host = make_host(plugin("spelled", code, more_py=more))
    call = host.call("spelled", "transform_tool_result", {"tool_name": "t", "args": {"a": 1}, "result": "r"})
    assert call.outcomes == (Returned("True r"),)


def test_each_callback_of_a_plugin_gives_an_outcome_in_order(make_host: MakeHost) -> None:
    code = (
        "async def late(**kw): return 'x'\n"
        "def register(ctx):\n"
        "    ctx.register_hook('pre_tool_call', lambda **k: 'one')\n"
        "    ctx.register_hook('pre_tool_call', lambda tool_name: 'no kwargs')\n"
        "    ctx.register_hook('pre_tool_call', late)\n"
        "    ctx.register_hook('pre_tool_call', lambda **k: {'two'})\n"
    )
    outcomes = make_host(plugin("many", code)).call("many", "pre_tool_call", CALL).outcomes
    assert outcomes[0] == Returned("one")
    assert isinstance(outcomes[1], NoVerdict)
    assert "TypeError" in outcomes[1].detail
    assert outcomes[2] == NoVerdict(NoVerdictKind.UNREADABLE, "late is async; plugin callbacks are not awaited")
    assert outcomes[3] == Returned("{'two'}")


def test_a_changed_argument_and_a_changed_context_come_back(make_host: MakeHost) -> None:
    host = make_host(
        answering("mutating", "kw['args']['command'] = 'ls -l'"),
        gateway("context", "def handle(e, c):\n    c['seen'] = e\n"),
    )
    assert host.call("mutating", "pre_tool_call", CALL).changed == {"args": {"command": "ls -l"}}
    assert host.call("context", "agent:start", {"a": 1}).changed == {"a": 1, "seen": "agent:start"}


@pytest.mark.parametrize("body", ["raise KeyboardInterrupt", "sys.exit(3)", "raise BaseException('x')", "1/0"])
def test_whatever_is_raised_costs_that_call_only(make_host: MakeHost, body: str) -> None:
    host = make_host(answering("bad", body), COUNTER)
    assert value(host, "bad") is NoVerdictKind.CRASHED
    assert value(host, "counter") == "1"
    assert host.starts == 1


def test_a_gateway_handler_may_be_async_or_not_and_may_fail(make_host: MakeHost) -> None:
    host = make_host(
        gateway("sync", "def handle(e, c): return e"),
        gateway(
            "late",
            "import asyncio\nasync def handle(e, c):\n    await asyncio.sleep(0.01)\n    return 'late'",
        ),
        gateway("bad", "async def handle(e, c): raise SystemExit(1)"),
    )
    assert [value(host, name, "agent:start") for name in ("sync", "late", "bad")] == [
        "agent:start",
        "late",
        NoVerdictKind.CRASHED,
    ]


@pytest.mark.parametrize(
    "body",
    [
        "time.sleep(60)",
        "while True: pass",
        "while True: print('x' * 1000)",
        "threading.Event().wait()",
        "open('/proc/self/fd/0').read() or time.sleep(60)",
    ],
)
def test_a_hanging_hook_times_out_and_the_others_go_on(make_host: MakeHost, body: str) -> None:
    host = make_host(answering("hang", body), COUNTER)
    started = time.monotonic()
    assert value(host, "hang", timeout=0.5) is NoVerdictKind.TIMED_OUT
    assert time.monotonic() - started < 2.5
    assert value(host, "counter") == "1"
    assert host.starts == 2


def test_a_hanging_gateway_handler_times_out(make_host: MakeHost) -> None:
    host = make_host(gateway("hang", "import time\ndef handle(e, c): time.sleep(60)"), COUNTER)
    assert value(host, "hang", "agent:start", timeout=0.5) is NoVerdictKind.TIMED_OUT
    assert value(host, "counter") == "1"


@pytest.mark.parametrize(
    "body",
    [
        "os._exit(0)",
        "os.kill(os.getpid(), 9)",
        "import ctypes; ctypes.string_at(0)",
        "x = []\nwhile True: x.append(bytearray(10**6) + b'x')",
        "while True: os.write(1, b'x' * 65536)",
        "os.write(3, b'garbage\\n'); time.sleep(60)",
        "os.closerange(0, 256); time.sleep(60)",
    ],
    ids=["_exit", "kill", "segfault", "memory", "flood", "garbage on the line", "close everything"],
)
def test_a_hook_that_ends_the_host_costs_itself_only(make_host: MakeHost, body: str) -> None:
    limits = replace(HOST_LIMITS, memory_bytes=300 * 2**20)
    host = make_host(answering("bad", body), COUNTER, limits=limits)
    assert value(host, "bad", timeout=8) in (NoVerdictKind.CRASHED, NoVerdictKind.TIMED_OUT)
    assert value(host, "counter") == "1"


def test_a_fork_bomb_costs_itself_only(make_host: MakeHost) -> None:
    host = make_host(answering("bomb", "while True: os.fork()"), COUNTER)
    assert value(host, "bomb", timeout=3) in (NoVerdictKind.CRASHED, NoVerdictKind.TIMED_OUT)
    assert value(host, "counter") == "1"


def test_a_hook_that_ends_the_host_again_and_again_is_quarantined(make_host: MakeHost) -> None:
    host = make_host(answering("bad", "os._exit(1)"), COUNTER)
    assert [value(host, "bad") for _ in range(3)] == [NoVerdictKind.CRASHED] * 3
    (outcome,) = host.call("bad", "pre_tool_call", CALL).outcomes
    assert isinstance(outcome, NoVerdict)
    assert "quarantined" in outcome.detail
    assert outcome.kind is NoVerdictKind.NOT_RUNNABLE
    starts = host.starts
    assert value(host, "counter") == "1"
    assert host.starts <= starts + 1
    host.release("bad")
    assert value(host, "bad") is NoVerdictKind.CRASHED


@pytest.mark.parametrize("code", ["import os; os._exit(3)\n", "import time; time.sleep(60)\n"])
def test_a_hook_that_ends_the_host_while_loading_is_left_out(
    make_host: MakeHost, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooks_app.runners.host.LOAD_SECONDS", 2.0)
    host = make_host(plugin("bad", code), COUNTER)
    reports = {report.name: report for report in host.start()}
    assert not reports["bad"].loaded
    assert "load" in reports["bad"].error
    assert value(host, "counter") == "1"


def test_innocent_calls_survive_a_crash_beside_them(make_host: MakeHost) -> None:
    host = make_host(
        answering("slow", "time.sleep(0.6)\nreturn 'slow'"), answering("bad", "time.sleep(0.2)\nos._exit(1)")
    )
    host.start()
    results: dict[str, Any] = {}
    threads = [threading.Thread(target=lambda n=name: results.update({n: value(host, n)})) for name in ("slow", "bad")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {"slow": "slow", "bad": NoVerdictKind.CRASHED}


def test_innocent_calls_survive_a_hang_beside_them(make_host: MakeHost) -> None:
    hang = "import re\nre.match('(a+)+$', 'a' * 60 + 'b')"
    host = make_host(answering("slow", "time.sleep(0.7)\nreturn 'slow'"), answering("hang", hang))
    host.start()
    results: dict[str, Any] = {}
    slow = threading.Thread(target=lambda: results.update(slow=value(host, "slow", timeout=30)))
    slow.start()
    time.sleep(0.1)
    results["hang"] = value(host, "hang", timeout=0.5)
    slow.join()
    assert results == {"slow": "slow", "hang": NoVerdictKind.TIMED_OUT}


def test_many_calls_at_once(make_host: MakeHost) -> None:
    host = make_host(answering("echo", "return kw['args']['number']"))
    results: dict[int, Any] = {}

    def one(number: int) -> None:
        (outcome,) = host.call("echo", "pre_tool_call", {"args": {"number": number}}).outcomes
        results[number] = outcome.value if isinstance(outcome, Returned) else outcome

    threads = [threading.Thread(target=one, args=(n,)) for n in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: n for n in range(40)}


def test_output_and_log_are_caught_and_bounded(make_host: MakeHost) -> None:
    body = "import logging\nprint('hello')\nlogging.getLogger('mine').warning('careful %d', 1)\nprint('y' * 10**6)"
    call = make_host(answering("talker", body)).call("talker", "pre_tool_call", CALL)
    assert call.output.startswith("hello\nyyy")
    assert len(call.output) <= 33_000
    assert call.log == (("WARNING", "mine", "careful 1"),)


def test_only_declared_names_are_in_the_environment(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    host = make_host(answering("env", "return sorted(os.environ)"), environment={"MY_TOKEN": "x"})
    base = {"HERMES_HOME", "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER"}
    assert set(value(host, "env")) - {"PWD"} == base | {"MY_TOKEN"}


def test_an_answer_that_cannot_be_sent_is_unreadable(make_host: MakeHost) -> None:
    host = make_host(
        answering("loop", "x = {}\nx['x'] = x\nreturn x"), answering("huge", "return 'x' * 10**8"), COUNTER
    )
    assert value(host, "loop") is NoVerdictKind.UNREADABLE
    assert value(host, "huge", timeout=20) in (NoVerdictKind.UNREADABLE, NoVerdictKind.CRASHED)
    assert value(host, "counter") == "1"


def test_an_entry_point_of_a_wheel(make_host: MakeHost) -> None:
    hook = plugin("wheel", "")
    files = {"my_package/__init__.py": b"from .reg import register\n"}
    files["my_package/reg.py"] = (
        b"def register(ctx):\n    ctx.register_hook('pre_tool_call', lambda **k: 'from a wheel')\n"
    )
    host = make_host(replace(hook, files=files, entry_point="my_package"))
    assert value(host, "wheel") == "from a wheel"


def test_a_file_path_that_leaves_its_directory_is_refused(make_host: MakeHost) -> None:
    hook = replace(COUNTER, files={"../../plane/hooks_app/hosted/child.py": b"x"})
    with pytest.raises(ValueError, match="leaves its directory"):
        make_host(hook).start()


def test_approved_files_cannot_be_changed_inside(make_host: MakeHost) -> None:
    body = "try:\n    os.chmod(__file__, 0o644)\nexcept OSError as e:\n    return e.strerror"
    assert value(make_host(answering("writer", body)), "writer") == "Read-only file system"


def test_commands_and_skills(make_host: MakeHost) -> None:
    code = (
        "from pathlib import Path\n"
        "async def slow(args): return f'async {args}'\n"
        "def register(ctx):\n"
        "    ctx.register_command('/Greet', lambda args: f'hello {args}', description='Greets')\n"
        "    ctx.register_command('later', slow)\n"
        "    ctx.register_skill('guide', Path(__file__).parent / 'guide.md')\n"
    )
    hook = plugin("cmd", code)
    host = make_host(replace(hook, files={**hook.files, "guide.md": b"# Guide"}))
    assert host.run_command("greet", "bob") == Returned("hello bob")
    assert host.run_command("later", "x") == Returned("async x")
    assert host.skills() == {"cmd:guide": "# Guide"}
    assert isinstance(host.run_command("unknown"), NoVerdict)


def test_what_has_no_other_end_says_so(make_host: MakeHost) -> None:
    code = "def register(ctx):\n    ctx.register_platform(name='irc', label='IRC', adapter_factory=print)\n"
    (report,) = make_host(plugin("irc", code)).start()
    assert not report.loaded
    assert "ctx.register_platform() has no other end in a hook host" in report.error


def test_an_unknown_event_is_kept_with_hermes_warning(make_host: MakeHost) -> None:
    code = "def register(ctx):\n    ctx.register_hook('pre_tol_call', lambda **k: 1)\n"
    (report,) = make_host(plugin("typo", code)).start()
    assert report.loaded
    assert report.warnings[0].startswith("Plugin 'typo' registered unknown hook 'pre_tol_call'")


@pytest.mark.parametrize(
    "forged",
    [
        '"outcomes": 5', '"outcomes": [5]', '"outcomes": [{"value": 1, "payload": 7}]', '"outcomes": [], "log": [5]',
        '"outcomes": [], "payload": [1]', '"outcomes": [], "log": 7', '"outcomes": [{"error": "x", "kind": [1]}]',
        '"error": {}', '"outcomes": [], "output": []',
    ],
)  # fmt: skip
def test_a_forged_answer_is_no_more_than_a_bad_answer(make_host: MakeHost, forged: str) -> None:
    answer = f'{{"id": %d, {forged}}}'
    code = f"for n in range(9): os.write(3, ({answer!r} % n + chr(10)).encode())"
    call = make_host(answering("forger", code)).call("forger", "pre_tool_call", CALL, 10)
    assert all(isinstance(outcome, NoVerdict | Returned) for outcome in call.outcomes)
    assert call.changed is None
    assert call.log == ()


def test_a_host_that_does_not_read_is_replaced(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incarnation, "SEND_SECONDS", 0.5)
    stop = "import signal\nthreading.Timer(0.2, os.kill, (os.getpid(), signal.SIGSTOP)).start()\nreturn 'stopping'"
    host = make_host(answering("stopper", stop), answering("other", "return 'fine'"))
    assert value(host, "stopper") == "stopping"
    time.sleep(0.5)
    large = {"tool_name": "terminal", "args": {"command": "x" * 3_000_000}}
    assert host.call("other", "pre_tool_call", large, 10).outcomes == (Returned("fine"),)
    assert host.starts == 2


def test_a_call_that_never_began_is_not_blamed_on_its_hook(make_host: MakeHost) -> None:
    stop = "import signal\nthreading.Timer(0.2, os.kill, (os.getpid(), signal.SIGSTOP)).start()\nreturn 'stopping'"
    host = make_host(answering("stopper", stop), answering("other", "return 'fine'"))
    for _ in range(QUARANTINE_AFTER):
        assert value(host, "stopper") == "stopping"
        time.sleep(0.5)
        assert value(host, "other", timeout=-4.5) is NoVerdictKind.TIMED_OUT
    assert value(host, "other") == "fine"


def test_what_the_host_has_logged_is_bounded_outside(make_host: MakeHost) -> None:
    lines: list[str] = []
    code = "text = 'x' * 9000\nfor n in range(900): os.write(3, f'{{\"background\": [1, 2, \"{text}\"]}}\\n'.encode())"
    host = make_host(answering("talker", code), log=lambda level, name, text: lines.append(text))
    value(host, "talker")
    assert 0 < len(lines) <= 3 * incarnation.LOGGED_PER_SECOND
    assert {len(line) for line in lines} == {incarnation.MAX_LOGGED}


def test_a_flood_of_questions_ends_the_host(make_host: MakeHost) -> None:
    slow = ServiceTable({"config.load": lambda: time.sleep(1)})
    question = '{"ask": 1, "service": "config.load", "arguments": {}}'
    flood = answering("flood", f"os.write(3, ({question!r} + chr(10)).encode() * 400)\ntime.sleep(5)")
    outcome = make_host(flood, services=slow).call("flood", "pre_tool_call", CALL, 10).outcomes[0]
    assert isinstance(outcome, NoVerdict)
    assert "questions at once" in outcome.detail
