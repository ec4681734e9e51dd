"""What may be answered, and what an answer covers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks_app.engine import approval, danger
from hooks_app.engine.approval import Choice, State, Terms, Wanted

NOW = datetime(2026, 4, 17, tzinfo=UTC)
WANTED = Wanted("rm -rf build", ("recursive delete",), "terminal", "s-1")
GRANT = Terms(
    id="g",
    keys=frozenset({"recursive delete"}),
    expires_at=NOW + timedelta(days=1),
    tool="terminal",
    digest=approval.digest("terminal", "rm -rf build"),
)


def test_a_grant_covers_exactly_what_was_shown() -> None:
    assert approval.covering([GRANT], WANTED, NOW) is GRANT


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (replace(WANTED, command="rm -rf src"), "it is for another command"),
        (replace(WANTED, command="rm -rf build "), "it is for another command"),
        (replace(WANTED, keys=("recursive delete", "SQL DROP")), "it does not cover 'SQL DROP'"),
        (replace(WANTED, tool="execute_code"), "it is for the tool 'terminal'"),
    ],
)
def test_and_nothing_else(wanted: Wanted, reason: str) -> None:
    assert approval.refusal(GRANT, wanted, NOW) == reason


def test_it_ends() -> None:
    assert approval.refusal(GRANT, WANTED, GRANT.expires_at) == "it is over"


def test_a_session_grant_stays_in_its_session() -> None:
    grant = replace(GRANT, session="s-1")
    assert not approval.refusal(grant, WANTED, NOW)
    assert approval.refusal(grant, replace(WANTED, session="s-2"), NOW) == "it is for another session"


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf bin; ls",
        "rm -rf bin && ls",
        "rm -rf bin | cat",
        "rm -rf `x`",
        "rm -rf $(x)",
        "rm -rf b\nls",
        "rm -rf b > x",
    ],
)
def test_a_pattern_never_covers_a_compound_command(command: str) -> None:
    assert not approval.matches_glob(command, "rm -rf *")


def test_allowlist_entries_must_cover_all_dangers() -> None:
    keys = ("recursive delete", "SQL DROP")
    assert approval.allowed_by("x; y", keys, ["recursive delete"]) is None
    assert approval.allowed_by("x; y", keys, ["SQL DROP", "recursive delete"]) == "recursive delete, SQL DROP"
    assert approval.allowed_by("rm -rf build", ("recursive delete",), ["rm -rf b*"]) == "rm -rf b*"
    assert approval.allowed_by("ls", (), ["recursive delete"]) is None


@pytest.mark.parametrize(
    ("command", "glob", "denied"),
    [
        ("git push x", "GIT PUSH*", True),
        ("r''m x", "rm *", True),
        ("bash -c 'rm x'", "rm x", True),
        ("a${IFS}b", "a b", True),
        ("É x", "é*", True),
        ("cat /home/alice/x", "cat ~/*", True),
        ("ls -la", "ls", False),
    ],
)
def test_deny_globs_are_about_what_a_shell_would_run(command: str, glob: str, denied: bool) -> None:
    machine = danger.Host(("/home/alice",))
    assert approval.denied_by(command, [5, " ", f" {glob} "], machine) == (glob if denied else None)


@pytest.mark.parametrize(
    ("choices", "narrowest"),
    [
        (["always", "once"], "once"),
        (["session", "always"], "session"),
        (["always", "deny"], "deny"),
        (["always"], "always"),
    ],
)
def test_the_narrowest_choice_counts(choices: list[str], narrowest: str) -> None:
    assert approval.narrowest(choices) == narrowest


@given(st.lists(st.sampled_from(list(Choice)), min_size=1))
def test_nobody_gets_more_than_anybody_gave(choices: list[Choice]) -> None:
    assert all(approval.WIDTH[approval.narrowest(choices)] <= approval.WIDTH[one] for one in choices)


@pytest.mark.parametrize(
    ("state", "choice", "word"),
    [
        (State.APPROVED, "session", "session"),
        (State.DENIED, "deny", "deny"),
        (State.EXPIRED, "", "timeout"),
        (State.CANCELLED, "", "deny"),
    ],
)
def test_the_seeds_words(state: State, choice: str, word: str) -> None:
    assert approval.hermes_choice(state, choice) == word


@given(st.text(max_size=40), st.text(max_size=40))
def test_digests_do_not_run_into_each_other(tool: str, command: str) -> None:
    assert approval.digest(tool + "x", command) != approval.digest(tool, "x" + command)
