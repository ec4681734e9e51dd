"""The side bar's groups, by the job that brings somebody here."""

from __future__ import annotations

from enum import StrEnum


class Section(StrEnum):
    """A group of the side bar, in the order of this list; it appears when a page in it is registered."""

    INBOX = "Inbox"
    REVIEW = "Review"
    HOOKS = "Hooks"
    FLEET = "Fleet"
    TEAMS = "Teams"
    AUDIT = "Audit"
