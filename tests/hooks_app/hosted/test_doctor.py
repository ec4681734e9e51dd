"""The seeds' common mistakes are found by reading; the seeds' own examples have none that are serious."""

from __future__ import annotations

import pytest

from hooks_app.hosted.doctor import check_python
from hooks_app.hosted.imports import check_imports
from tests.seeds.conftest import EXAMPLES, example


def codes(kind: str, **files: str) -> list[str]:
    """Return the codes of what is found in these files; `_py` stands for `.py`."""
    texts = {name.replace("_py", ".py"): text.encode() for name, text in files.items()}
    return [finding.code for finding in check_python(kind, texts)]


@pytest.mark.parametrize(
    "path", sorted(path for path in EXAMPLES.glob("[gp]*/*") if path.is_dir()), ids=lambda path: path.name
)
def test_the_seeds_examples_are_healthy(path: object) -> None:
    kind = "gateway" if path.parent.name == "gateway" else "plugin"  # type: ignore[attr-defined]
    hook = example(kind, path.name)  # type: ignore[attr-defined]
    assert [finding for finding in check_python(kind, hook.files) if finding.serious] == []


def test_a_gateway_hook_without_handle() -> None:
    assert codes("gateway", handler_py="def handel(event_type, context): ...") == ["missing-handle"]
    assert codes("gateway", handler_py="def handle(event_type): ...") == ["handle-signature"]
    assert codes("gateway", handler_py="async def handle(event_type, context, **kw): ...") == []
    assert codes("gateway", handler_py="from json import dumps as handle") == []


def test_a_callback_without_kwargs_or_async() -> None:
    register = "def register(ctx):\n    ctx.register_hook('pre_tool_call', cb)\n"
    assert codes("plugin", __init___py=f"def cb(tool_name): ...\n{register}") == ["no-kwargs"]
    assert codes("plugin", __init___py=f"async def cb(**kw): ...\n{register}") == ["async-callback"]
    assert codes("plugin", __init___py="def register(ctx):\n    ctx.register_hook('x', lambda a: 1)\n") == ["no-kwargs"]


def test_a_tool_that_does_not_return_json_or_is_vague() -> None:
    tools = (
        "def handler(args, **kwargs):\n    return {'result': 42}\nSCHEMA = {'name': 't', 'description': 'Does stuff'}\n"
    )
    init = "from . import tools\ndef register(ctx):\n    ctx.register_tool('t', 'set', tools.SCHEMA, tools.handler)\n"
    assert sorted(codes("plugin", __init___py=init, tools_py=tools)) == ["not-json", "vague-schema"]


def test_a_result_of_an_inner_function_is_not_the_tools_result() -> None:
    code = (
        "import json\n"
        "def handler(args, **kwargs):\n    def inner():\n        return {'a': 1}\n    return json.dumps(inner())\n"
        "SCHEMA = {'description': 'Tells how many apples are left in the box.'}\n"
        "def register(ctx):\n    ctx.register_tool(name='t', schema=SCHEMA, handler=handler)\n"
    )
    assert codes("plugin", __init___py=code) == []


def test_imports_that_a_host_does_not_offer() -> None:
    files = {
        "__init__.py": b"import os, httpx, yaml\nfrom . import more\nimport numpy.linalg\nfrom requests import get\n"
    }
    files["more.py"] = (
        b"import importlib\nimportlib.import_module('pandas')\n"
        b"from gateway.run import x\nfrom run_agent import AIAgent\n"
    )
    problems = check_imports(files)
    assert [problem.split(",")[0] for problem in problems] == [
        "__init__.py:3: imports numpy.linalg",
        "__init__.py:4: imports requests",
        "more.py:2: imports pandas",
    ]


def test_code_that_is_not_python() -> None:
    assert check_imports({"handler.py": b"def handle(:\n"})[0].startswith("handler.py: not valid Python")


def test_what_a_hook_host_does_not_offer_is_said_before_review() -> None:
    init = "def register(ctx):\n    ctx.register_middleware('tool_request', print)\n    ctx.llm.complete('x')\n"
    assert codes("plugin", __init___py=init) == ["not-hosted", "not-hosted"]
    every = ["register_hook", "register_tool", "register_command", "register_cli_command", "register_skill"]
    offered = "".join(f"    ctx.{name}\n" for name in every)
    assert codes("plugin", __init___py=f"def register(ctx):\n{offered}") == []
