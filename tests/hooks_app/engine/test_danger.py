"""The detector of dangerous commands against what Hermes 0.19.0 was seen to answer, and against hostile input."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks_app.engine import danger, patterns
from hooks_app.engine.danger import Detection, Finding, Host, detect_dangerous, detect_hardline, findings
from hooks_app.engine.danger_patterns import DANGEROUS_SIGNS, HARDLINE_SIGNS, PIECES, compiled
from hooks_app.engine.danger_text import normalise, searchable, strip_escapes

HOST = Host(("/home/alice",), ("/srv/hermes/alice",), "/tmp")
OBSERVED = json.loads((Path(__file__).parent / "data" / "danger_observed.json").read_text())
LIMIT = "command parser limit exceeded"


def test_agrees_with_every_observed_answer() -> None:
    keys: list[str] = OBSERVED["keys"]
    wrong: list[Any] = []
    for command, dangerous, hardline in OBSERVED["rows"]:
        expected = tuple(None if index is None else keys[index] for index in (dangerous, hardline))
        answer = (detect_dangerous(command, HOST).key, detect_hardline(command, HOST).key)
        if answer != expected:
            wrong.append((command, expected, answer))
    assert wrong == []


def test_inventory_is_that_of_hermes() -> None:
    assert len(DANGEROUS_SIGNS) == 70
    assert len({key for key, _ in DANGEROUS_SIGNS}) == 69
    assert len(danger.HARDLINE_KEYS) == 12
    assert danger.STRUCTURAL_KEYS == (
        "script execution via -e/-c flag",
        "script execution via heredoc",
        "shell command via -c/-lc flag",
        "arbitrary program execution via <tool> <option>",
        LIMIT,
        "command parser limit or malformed executable payload",
    )


def test_every_observed_key_is_known() -> None:
    assert all(danger.known_key(key) for key in OBSERVED["keys"])
    assert not danger.known_key("rm_rf")


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("a" * 4_097, LIMIT),
        ("a" * 4_096, None),
        ("a" * 4_097 + ";", None),
        (";" * 24_999, None),
        (";" * 25_000, LIMIT),
        ("a\n" * 64_000, LIMIT),
        ("a" * 127_999 + "\n", None),
    ],
    ids=lambda value: f"{value[:3]!r}…{len(value)}" if value and len(value) > 40 else str(value),
)
def test_parser_limits(command: str, key: str | None) -> None:
    assert detect_dangerous(command, HOST).key == key
    assert detect_hardline(command, HOST).key == key


def test_detections_have_the_shape_of_hermes() -> None:
    assert detect_dangerous("rm -rf x", HOST) == Detection(True, "recursive delete", "recursive delete")
    assert detect_hardline("ls", HOST) == Detection(False, None, None)


def test_all_keys_are_found_not_only_the_first() -> None:
    found = findings("rm -rf /tmp/x && git push --force", HOST)
    assert found == (
        Finding("delete in root path"),
        Finding("recursive delete"),
        Finding("git force push (rewrites remote history)"),
    )
    assert findings("sudo rm -rf /", HOST)[-1] == Finding("recursive delete of root filesystem", hardline=True)


def test_homes_and_temp_dir_are_those_of_the_host() -> None:
    elsewhere = Host(("/users/bob",), ("/opt/agents/h1",), "/scratch")
    assert detect_dangerous("tee /home/alice/.bashrc", HOST).flagged
    assert not detect_dangerous("tee /home/alice/.bashrc", elsewhere).flagged
    assert detect_dangerous("tee /opt/agents/h1/config.yaml", elsewhere).key == "overwrite system file via tee"
    assert detect_dangerous(r"tee \users\bob\.ssh\config", elsewhere).flagged
    assert not detect_dangerous("rm -f /scratch/hermes-verify-1.py", elsewhere).flagged
    assert detect_dangerous("rm -f /tmp/hermes-verify-1.py", elsewhere).flagged


def test_a_home_right_below_the_root_folds_nothing() -> None:
    assert normalise("cat /root/.bashrc", Host(("/root",))) == "cat /root/.bashrc"


def test_a_link_out_of_the_temp_dir_is_no_temp_file(tmp_path: Path) -> None:
    inside = tmp_path / "tmp"
    inside.mkdir()
    (inside / "hermes-verify-plain").touch()
    (inside / "hermes-verify-link").symlink_to(tmp_path / "elsewhere")
    host = Host(temp_dir=str(inside))
    assert not detect_dangerous(f"rm -f {inside}/hermes-verify-plain", host).flagged
    assert detect_dangerous(f"rm -f {inside}/hermes-verify-link", host).flagged


def test_this_machine_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/carol")
    monkeypatch.setenv("HERMES_HOME", "/data/hermes/carol")
    assert detect_dangerous("tee /home/carol/.netrc").flagged
    assert detect_dangerous("sed -i s/a/b/ /data/hermes/carol/config.yaml").key == "in-place edit of Hermes config/env"


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("\x1b[31mrm\x1b[0m", "rm"),
        ("\x1b]0;title\x07ls", "ls"),
        ("\x1b]0;open ls", "0;open ls"),
        ("\x1bPq\x1b\\ls", "ls"),
        ("\x1b(Bls", "ls"),
        ("\x9b1mls", "ls"),
        ("\x9dtitle\x9cls", "ls"),
        ("\x85ls", "ls"),
        ("ls\x1b", "ls\x1b"),
    ],
)
def test_terminal_sequences_are_stripped(text: str, stripped: str) -> None:
    assert strip_escapes(text) == stripped


def test_searchable_text_keeps_what_unicode_patterns_see() -> None:
    assert searchable("Éa \u2028b\u200bg\u0131T\x1c") == "Za  b\x01git "


def test_signs_use_only_pieces_that_exist_and_patterns_that_both_back_ends_share() -> None:
    for _, sign in DANGEROUS_SIGNS + HARDLINE_SIGNS:
        assert compiled(sign)
    assert all("…" not in piece or name == "copy" for name, piece in PIECES.items())


def test_agrees_where_re2_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers from `re` and the automaton, on a slice of what was observed."""
    portable = [
        (key, patterns.Pattern(compiled(sign).source, backend="re")) for key, sign in DANGEROUS_SIGNS + HARDLINE_SIGNS
    ]
    native = [(key, compiled(sign)) for key, sign in DANGEROUS_SIGNS + HARDLINE_SIGNS]
    for command, _, _ in OBSERVED["rows"][::6]:
        text = searchable(normalise(command, HOST))
        for (key, ours), (_, theirs) in zip(portable, native, strict=True):
            assert ours.search(text) == theirs.search(text), (key, command)


def _filled(unit: str, end: str = "\n") -> str:
    return (unit * (128_000 // len(unit)))[: 128_000 - len(end)] + end


HOSTILE = {
    **{repr(unit): _filled(unit) for unit in ("(", "$(", "`", "${", "${a", "'", '"', "\\", ">", ">a/", "/", " ", "é")},
    **{repr(unit): _filled(unit) for unit in ("-rm ", "rm -a ", "sudo ", "sudo env A=1 ", "git branch -d ", "cp /x ")},
    **{repr(unit): _filled(unit) for unit in ("perl -i ", "openssl enc -d ", "powershell -a ", "hermes -a b ")},
    **{repr(unit): _filled(unit) for unit in ("\x1b]", "\x1b]x\a", "\x1bP", "\x9d", "${IFS", "tee .env.a", "\ufdfa")},
    **{
        repr(unit): unit * 8_000
        for unit in ("bash -c x;", "bash -c '", "(python -x ", "r'm' x;", "$(echo a);", "$(echo ")
    },
    "newlines": "\n" * 24_990 + "x",
    "quoted patterns of grep": "(grep -P 'a' b " * 8_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_ends_soon(name: str) -> None:
    began = time.process_time()
    findings(HOSTILE[name], HOST)
    assert time.process_time() - began < 6


def test_what_is_too_much_to_read_is_treated_as_dangerous() -> None:
    assert detect_hardline("$(" * 60_000 + "\n", HOST).key == LIMIT


@given(st.text(alphabet="rm -f/'\"\\$(){}`;&|<>\n ~.eIFSbashcgrpP=ı\x1b[", max_size=60))
def test_any_text_gets_an_answer_with_known_keys(command: str) -> None:
    assert all(danger.known_key(finding.key) for finding in findings(command, HOST))


@given(st.sampled_from(["rm", "reboot", "git", "mkfs"]), st.data())
def test_empty_quotes_and_backslashes_in_a_word_change_nothing(word: str, data: st.DataObject) -> None:
    tail = {"rm": " -rf /", "git": " push -f"}.get(word, "")
    at = data.draw(st.integers(1, len(word) - 1))
    filler = data.draw(st.sampled_from(["''", '""', "\\", "\\\n", "\x00", "\x1b[1m"]))
    assert findings(word[:at] + filler + word[at:] + tail, HOST) == findings(word + tail, HOST) != ()
