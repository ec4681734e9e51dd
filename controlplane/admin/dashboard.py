"""The first page: what needs you now, and how things stand. Apps add cards:

    dashboard.register(Card("Changes to review", order=10, place=Place.NOW, build=changes_to_review))

`build(request)` returns a Content, or None where the card is not for this person.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.http import HttpRequest

from controlplane.admin.display import Tone


class Place(StrEnum):
    """Where on the page a card belongs."""

    NOW = "now"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a card: a link or a fact, its state as shape and word, and when."""

    text: str
    url: str = ""
    note: str = ""
    state: str = ""
    tone: Tone = Tone.OFF
    at: datetime | None = None
    code: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """What a card shows today; a NOW card without lines is left out, a STATE card says the next step instead."""

    lines: Sequence[Line] = ()
    empty: str = ""
    next_label: str = ""
    next_url: str = ""
    more_label: str = ""
    more_url: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """A registered card."""

    title: str
    build: Callable[[HttpRequest], Content | None]
    order: int = 100
    place: Place = Place.STATE
    wide: bool = False


_cards: dict[str, Card] = {}


def register(card: Card) -> None:
    """Put a card on the dashboard; its title is its name."""
    if card.title in _cards:
        raise ValueError(f"There is a card called {card.title} already.")
    _cards[card.title] = card


def cards(request: HttpRequest, place: Place) -> list[tuple[Card, Content]]:
    """The cards of one place that are for this person, in order."""
    built = [
        (card, card.build(request))
        for card in sorted(_cards.values(), key=lambda card: card.order)
        if card.place == place
    ]
    return [(card, content) for card, content in built if content and (content.lines or place == Place.STATE)]
