"""Patterns: what is accepted, what it means, and that every back end means the same."""

from __future__ import annotations

import time

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hooks_app.engine import patterns
from hooks_app.engine.patterns import Pattern, PatternError, TextTooLarge

BACKENDS = ["re", "automaton"] + (["re2"] if patterns.default_backend() == "re2" else [])

REFUSED = {
    r"(?=a)b": "look-ahead",
    r"(?!a)b": "negative look-ahead",
    r"(?<=a)b": "look-behind",
    r"(?<!a)b": "negative look-behind",
    r"(a)\1": "back-reference",
    r"(?P<n>a)(?P=n)": "back-reference",
    r"a*+": "possessive",
    r"a{2}+": "possessive",
    r"(?>a)": "atomic",
    r"(a)?(?(1)b|c)": "conditional",
    r"a\Z": r"\Z",
    r"a\z": r"\z",
    r"\p{L}": "Unicode property",
    r"\C": r"\C",
    r"(?x)a b": "inline flag 'x'",
    r"(?a)\w": "inline flag 'a'",
    r"(?U)a+": "inline flag 'U'",
    r"a(?i)b": "must stand first",
    r"(?<n>a)": "group (?<name>",
    r"(?#note)a": "comment",
    r"[[:alpha:]]": "POSIX class",
    r"[\b]": "inside a character class",
    r"a**": "multiple repeat",
    r"a{,3}": "{,n}",
    r"a{2000}": "repeat count",
    r"(?:a*)*": "can match nothing",
    r"(?:|a)+": "can match nothing",
    r"^*": "anchor",
    r"*a": "nothing to repeat",
    r"(a": "not closed",
    r"a)": "unmatched )",
    r"[a": "not closed",
    r"[z-a]": "bad range",
    r"[a-b-c]": "- after a range",
    r"\u0041": r"\u escape",
    r"\x{41}": r"\x takes",
    r"\Qa\E": r"\Q",
    r"\y": "unknown escape",
    "a\\": "ends in a backslash",
    "(?:(?:a{100}){100}){100}": "unfolds",
    "a" * 2_001: "longer than",
    "\ud800": "surrogate",
    "(" * 41 + ")" * 41: "nested deeper",
}


@pytest.mark.parametrize(("source", "named"), REFUSED.items())
def test_what_the_back_ends_do_not_share_is_refused_by_name(source: str, named: str) -> None:
    with pytest.raises(PatternError, match=r"at position \d+") as caught:
        patterns.compile(source)
    assert named in caught.value.reason


def test_refusal_says_where_the_construct_stands() -> None:
    with pytest.raises(PatternError) as caught:
        patterns.compile(r"rm\s+(?!-i)")
    assert caught.value.position == 5


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("source", "text", "span"),
    [
        (r"a$", "a\n", None),
        (r"^b", "a\nb", None),
        (r"(?m)^b$", "a\nb\n", (2, 3)),
        (r"\d", "٣", None),
        (r"\w+", "é_x", (1, 3)),
        (r"\bx", "éx", (1, 2)),
        (r"\B", "", (0, 0)),
        (r"\s", "\u00a0\v", (1, 2)),
        (r"a.b", "a\nb", None),
        (r"(?s)a.b", "a\nb", (0, 3)),
        (r"(?i)k", "\u212a", None),
        (r"(?i)s", "\u017f", None),
        (r"(?i)É", "é", None),
        (r"(?i)[^k]", "K", None),
        (r"(?i:A)b", "ab", (0, 2)),
        (r"a|ab", "ab", (0, 1)),
        (r"a+?", "aaa", (0, 1)),
        (r"[]a]", "]", (0, 1)),
        (r"a{b", "a{b", (0, 3)),
        (r"[^a]", "\ud800", (0, 1)),
        (r"x", "é" * 3 + "x", (3, 4)),
    ],
)
def test_meaning(backend: str, source: str, text: str, span: tuple[int, int] | None) -> None:
    assert Pattern(source, backend=backend).search(text) == span


@pytest.mark.parametrize("backend", BACKENDS)
def test_replacing_keeps_what_is_between_the_matches(backend: str) -> None:
    pattern = Pattern("sk-[A-Za-z0-9]{4,}", backend=backend)
    assert pattern.sub(r"\1[gone]", "é sk-abcd, sk-12345 \ud800") == (r"é \1[gone], \1[gone] " + "\ud800", 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_empty_matches_advance_and_replace_nothing(backend: str) -> None:
    pattern = Pattern("a*", backend=backend)
    assert list(pattern.finditer("baac")) == [(0, 0), (1, 3), (3, 3), (4, 4)]
    assert pattern.sub("-", "baac") == ("b-c", 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_text_and_number_of_matches_are_bounded(backend: str) -> None:
    with pytest.raises(TextTooLarge):
        Pattern("x", backend=backend).search("x" * (patterns.MAX_TEXT + 1))
    with pytest.raises(TextTooLarge):
        Pattern("x", backend=backend).sub("", "x" * (patterns.MAX_MATCHES + 1))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"(a|a)+b", "a" * 5_000 + "b" * 0 + "cb"),
        (r"(?:a|aa)+$", "a" * 20_000 + "!"),
        (r"(?:x+x+)+y", "x" * 20_000 + "zy"),
        (r"curl.*\|.*sh$", "curl|sh" * 10_000 + "!"),
        (r"\s+$", " " * 50_000 + "x"),
        (r".*a.{50}b$", "ab" * 10_000),
        (r"(?:a?){30}a{30}", "a" * 29),
    ],
)
def test_hostile_patterns_end_soon_on_every_back_end(backend: str, source: str, text: str) -> None:
    try:
        pattern = Pattern(source, backend=backend)
    except PatternError:
        assert source == r"(?:a?){30}a{30}"
        return
    began = time.process_time()
    pattern.search(text)
    assert time.process_time() - began < 2


_LITERALS = st.sampled_from(
    [*list("abK_ 0.\n-"), "\\.", "é", "\\n", "\\x41", "[^a]", "[a-c0]", "[^\\w\\n]", "\\w", "\\W"]
)
_CLASSES = st.sampled_from([".", "\\d", "\\s", "\\S", "[ab]", "[\\d_]", "(?i:k)", "(?s:.)", "[\\-\\]]", "s"])
_ANCHORS = st.sampled_from(["^", "$", "\\b", "\\B", "\\A", "(?m:^)", "(?m:$)"])
_QUANTIFIERS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?", "??", "{0,2}?"])


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.tuples(st.sampled_from(["(?:{}){}", "({}){}", "(?P<g>{}){}", "(?i:{}){}"]), inner, _QUANTIFIERS)
    return st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join).map(lambda body: f"(?:{body})"),
        group.map(lambda parts: parts[0].format(parts[1], parts[2])),
    )


_ATOMS = st.one_of(_ANCHORS, st.tuples(st.one_of(_LITERALS, _CLASSES), _QUANTIFIERS).map("".join))
PATTERNS = st.recursive(_ATOMS, _combined, max_leaves=8)
TEXTS = st.text(
    alphabet=st.sampled_from([*list("abcAkKs_ 0.-]\n\r\x0b"), "é", "K", "ſ", "😀", "�", "\xa0"]),
    max_size=14,
)


@given(source=PATTERNS, text=TEXTS, ignore_case=st.booleans())
@example(source="(?:a|b)??c", text="abc", ignore_case=False)
@example(source="(?:ab|a)(?:bc|)", text="abc", ignore_case=False)
@example(source="(?:a|ab)(?:c|bcd)(?:d*)", text="abcd", ignore_case=False)
@example(source="(?m:$)", text="a\nb\n", ignore_case=False)
def test_every_back_end_finds_the_same(source: str, text: str, ignore_case: bool) -> None:
    try:
        compiled = [Pattern(source, ignore_case=ignore_case, backend=backend) for backend in BACKENDS]
    except PatternError:
        assume(False)
    answers = [(p.search(text), p.fullmatch(text), list(p.finditer(text)), p.sub("-", text)) for p in compiled]
    assert all(answer == answers[0] for answer in answers), dict(zip(BACKENDS, answers, strict=True))


@given(source=st.text(alphabet="ab()[]{}?*+|\\.^$-:,1<>P=!idwsbZ", max_size=10))
def test_any_text_is_accepted_or_refused_never_anything_else(source: str) -> None:
    try:
        pattern = patterns.compile(source)
    except PatternError as refusal:
        position = refusal.position
    else:
        found = pattern.search("ab")
        position = found[0] if found else 0
    assert 0 <= position <= max(len(source), 2)


@given(source=PATTERNS)
def test_what_is_accepted_is_valid_for_re_as_typed(source: str) -> None:
    import re

    try:
        Pattern(source, backend="re")
    except PatternError:
        assume(False)
    re.compile(source, re.ASCII)
    if "re2" in BACKENDS:
        import re2

        re2.compile(source)
