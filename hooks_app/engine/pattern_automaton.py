"""Matching in time linear in the text: a lazily built automaton for patterns on which `re` could backtrack.

A state is the ordered list of places a pattern can be in, so the first match in the list is the one a
backtracking matcher would have found: the same leftmost-first answer that RE2 and `re` give.
"""

from __future__ import annotations

from dataclasses import dataclass

from hooks_app.engine.pattern_nodes import WORD, Anchor, Chars, Choice, Node, Ranges, Repeat, Sequence

MAX_PROGRAM = 4_000
_MAX_MOVES = 20_000

_EDGE, _LINE, _WORD_CHAR, _OTHER = range(4)
_MATCH, _RESTART = 0, -1
_MIRRORED = {"start": "end", "end": "start", "line_start": "line_end", "line_end": "line_start"}
_WORD_CHARS = frozenset(chr(code) for low, high in WORD for code in range(low, high + 1))


class ProgramTooLarge(ValueError):
    """The pattern's repeats unfold to more than the automaton may hold."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One instruction: consume a character of `ranges`, hold at `place`, or fork to `targets` in order."""

    ranges: Ranges | None = None
    place: str = ""
    targets: tuple[int, ...] = ()


def mirror(node: Node) -> Node:
    """The pattern that matches the same text read backwards."""
    if isinstance(node, Sequence):
        return Sequence(tuple(mirror(item) for item in reversed(node.items)))
    if isinstance(node, Choice):
        return Choice(tuple(mirror(item) for item in node.items))
    if isinstance(node, Repeat):
        return Repeat(mirror(node.item), node.least, node.most, node.greedy)
    if isinstance(node, Anchor):
        return Anchor(_MIRRORED.get(node.place, node.place))
    return node


class _Program:
    """The instructions of one pattern; place 0 is the match."""

    def __init__(self, node: Node) -> None:
        self.steps: list[_Step] = [_Step()]
        self.entry = self._add(node, 0)

    def _emit(self, step: _Step) -> int:
        if len(self.steps) >= MAX_PROGRAM:
            raise ProgramTooLarge(f"pattern unfolds to more than {MAX_PROGRAM} steps")
        self.steps.append(step)
        return len(self.steps) - 1

    def _add(self, node: Node, after: int) -> int:
        """Instructions for the node that go on at `after`; returns where they begin."""
        if isinstance(node, Chars):
            return self._emit(_Step(ranges=node.ranges, targets=(after,)))
        if isinstance(node, Anchor):
            return self._emit(_Step(place=node.place, targets=(after,)))
        if isinstance(node, Sequence):
            for item in reversed(node.items):
                after = self._add(item, after)
            return after
        if isinstance(node, Choice):
            return self._emit(_Step(targets=tuple(self._add(item, after) for item in node.items)))
        return self._add_repeat(node, after)

    def _add_repeat(self, node: Repeat, after: int) -> int:
        if node.most is None:
            loop = self._emit(_Step())
            body = self._add(node.item, loop)
            self.steps[loop] = _Step(targets=(body, after) if node.greedy else (after, body))
            entry = loop
        else:
            entry = after
            for _ in range(node.most - node.least):
                body = self._add(node.item, entry)
                entry = self._emit(_Step(targets=(body, after) if node.greedy else (after, body)))
        for _ in range(node.least):
            entry = self._add(node.item, entry)
        return entry


class _State:
    """One set of places, with the moves out of it that were met so far."""

    __slots__ = ("behind", "moves", "places")

    def __init__(self, places: tuple[int, ...], behind: int) -> None:
        self.places = places
        self.behind = behind
        self.moves: dict[str, tuple[bool, _State]] = {}


class _Machine:
    """Runs one program in one direction."""

    def __init__(self, node: Node, *, floating: bool, longest: bool) -> None:
        program = _Program(node)
        self.steps, self.entry = program.steps, program.entry
        self.floating = floating
        self.longest = longest
        self._forget()

    def _forget(self) -> None:
        self.states: dict[tuple[tuple[int, ...], int], _State] = {}
        self.known_moves = 0

    def state(self, places: tuple[int, ...], behind: int) -> _State:
        found = self.states.get((places, behind))
        if found is None:
            found = self.states[places, behind] = _State(places, behind)
        return found

    def start(self, behind: int) -> _State:
        """The state before the first character."""
        return self.state((self.entry, _RESTART) if self.floating else (self.entry,), behind)

    def follow(self, state: _State, ahead: int) -> tuple[list[int], bool]:
        """The places reachable without consuming, best first, and whether a match is among them.

        Unless the longest match is wanted, what comes after the match in that order is cut off.
        """
        reached: list[int] = []
        seen: set[int] = set()
        matched = False
        pending = list(reversed(state.places))
        while pending:
            place = pending.pop()
            if place in seen:
                continue
            seen.add(place)
            if place == _MATCH:
                matched = True
                if not self.longest:
                    break
            elif place == _RESTART or self.steps[place].ranges is not None:
                reached.append(place)
            elif _holds(self.steps[place].place, state.behind, ahead):
                pending.extend(reversed(self.steps[place].targets))
        return reached, matched

    def move(self, state: _State, char: str) -> tuple[bool, _State]:
        """Whether a match ends before the character, and the state after it."""
        ahead = _kind(char)
        reached, matched = self.follow(state, ahead)
        code = ord(char)
        places: list[int] = []
        for place in reached:
            if place == _RESTART:
                places += (self.entry, _RESTART)
            elif _within(self.steps[place].ranges, code):
                places += self.steps[place].targets
        if self.known_moves >= _MAX_MOVES:
            self._forget()
        self.known_moves += 1
        result = matched, self.state(tuple(dict.fromkeys(places)), ahead)
        state.moves[char] = result
        return result

    def matched_at_edge(self, state: _State, ahead: int) -> bool:
        """Whether a match ends where the text (or the part to look at) ends."""
        return self.follow(state, ahead)[1]


class Automaton:
    """A pattern that is searched in time linear in the text."""

    def __init__(self, node: Node) -> None:
        self._forward = _Machine(node, floating=True, longest=False)
        self._backward = _Machine(mirror(node), floating=False, longest=True)

    def search(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """The span of the first match at or after `start`."""
        end = self._first_end(text, start)
        return None if end is None else (self._first_start(text, start, end), end)

    def _first_end(self, text: str, start: int) -> int | None:
        machine = self._forward
        state = machine.start(_kind_at(text, start - 1))
        found: int | None = None
        for index in range(start, len(text)):
            char = text[index]
            matched, state = state.moves.get(char) or machine.move(state, char)
            if matched:
                found = index
            if not state.places:
                return found
        return len(text) if machine.matched_at_edge(state, _EDGE) else found

    def _first_start(self, text: str, start: int, end: int) -> int:
        machine = self._backward
        state = machine.start(_kind_at(text, end))
        found = end
        for index in range(end - 1, start - 1, -1):
            char = text[index]
            matched, state = state.moves.get(char) or machine.move(state, char)
            if matched:
                found = index + 1
            if not state.places:
                return found
        return start if machine.matched_at_edge(state, _kind_at(text, start - 1)) else found


def _kind(char: str) -> int:
    if char == "\n":
        return _LINE
    return _WORD_CHAR if char in _WORD_CHARS else _OTHER


def _kind_at(text: str, index: int) -> int:
    return _kind(text[index]) if 0 <= index < len(text) else _EDGE


def _within(ranges: Ranges | None, code: int) -> bool:
    return ranges is not None and any(low <= code <= high for low, high in ranges)


def _holds(place: str, behind: int, ahead: int) -> bool:
    if not place:
        return True
    if place == "start":
        return behind == _EDGE
    if place == "end":
        return ahead == _EDGE
    if place == "line_start":
        return behind in (_EDGE, _LINE)
    if place == "line_end":
        return ahead in (_EDGE, _LINE)
    return ((behind == _WORD_CHAR) != (ahead == _WORD_CHAR)) == (place == "word")
