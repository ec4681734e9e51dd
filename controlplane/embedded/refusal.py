"""The one way this package says no."""

from __future__ import annotations


class Refusal(Exception):
    """A start that cannot succeed: its text is one line that says what is wrong and what to do."""
