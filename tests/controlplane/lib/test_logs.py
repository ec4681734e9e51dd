from __future__ import annotations

import io
import json
import logging
import logging.config
import sys
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any

import pytest

from controlplane.lib import logs

SECRET = "cad_" + "Zx9Qw3Er7Ty1Ui5Op2As"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], io.StringIO]]:
    """Configure logging as the settings do, with standard error in memory."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level

    def start(format: str) -> io.StringIO:
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        logging.config.dictConfig(logs.configure(format))
        return stream

    yield start
    root.handlers[:] = before
    root.setLevel(level)


def entry(stream: io.StringIO) -> dict[str, Any]:
    line = stream.getvalue()
    assert line.count("\n") == 1
    found: dict[str, Any] = json.loads(line)
    return found


def test_json_carries_ids_extras_and_no_secret(written: Callable[[str], io.StringIO]) -> None:
    stream = written("json")
    with logs.bind(request_id="r1", team="red"):
        logging.getLogger("a.b").warning("token is %s", SECRET, extra={"hook": "x", "password": "hunter2"})
    found = entry(stream)
    assert found.pop("at").endswith("Z")
    assert found == {
        "level": "WARNING",
        "logger": "a.b",
        "message": "token is [redacted]",
        "request_id": "r1",
        "team": "red",
        "extra": {"hook": "x", "password": "[redacted]"},
    }


def test_a_traceback_is_masked_in_both_formats(written: Callable[[str], io.StringIO]) -> None:
    for format in logs.FORMATS:
        stream = written(format)
        try:
            raise RuntimeError(f"refused {SECRET}")
        except RuntimeError:
            logging.getLogger("a").exception("failed")
        assert "RuntimeError: refused [redacted]" in stream.getvalue()
        assert SECRET not in stream.getvalue()


def test_console_is_one_readable_line_that_cannot_be_forged(written: Callable[[str], io.StringIO]) -> None:
    stream = written("console")
    with logs.bind(request_id="r1"):
        logging.getLogger("a.b").info("hello\n12:00:00 INFO root: forged\x1b[2J\u202e", extra={"n": 5})
    line = stream.getvalue()
    assert line.count("\n") == 1
    assert line[9:] == "INFO    a.b: hello\\n12:00:00 INFO root: forged\\x1b[2J\\u202e request_id=r1 n=5\n"


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize("format", logs.FORMATS)
def test_odd_records_are_written_all_the_same(written: Callable[[str], io.StringIO], format: str) -> None:
    stream = written(format)
    log = logging.getLogger("odd")
    log.warning("%d items", "many")
    log.warning("value %s", Hostile())
    log.warning("nul \0 and \ud800", extra={"o": Hostile(), "b": b"abc", "n": float("nan")})
    text = stream.getvalue()
    assert text.count("\n") == 3
    assert "%d items (its arguments do not fit)" in text
    assert "[Hostile]" in text
    assert "[3 bytes]" in text


def test_bind_ends_with_its_block_and_stays_in_its_context() -> None:
    with logs.bind(task_id="t1", team="red"):
        with logs.bind(team="blue"):
            assert (logs.task_id.get(), logs.team.get()) == ("t1", "blue")
        assert logs.team.get() == "red"
        copy_context().run(logs.request_id.set, "elsewhere")
        assert logs.request_id.get() is None
    assert logs.task_id.get() is None


def test_unknown_ids_and_formats_are_refused() -> None:
    with pytest.raises(KeyError), logs.bind(colour="red"):
        pass
    with pytest.raises(ValueError, match="use one of console, json"):
        logs.configure("xml")
