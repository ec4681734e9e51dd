"""One attempt to deliver one message: signed, sent, and its answer read as what should happen next.

A message may be sent again although it might have arrived (no answer, a dead worker), because its id stays the same in
every attempt and the receiver can tell a repetition by it. Nothing else in the plane is repeated on such a guess.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final

from controlplane.lib import webhooks
from controlplane.lib.http import Client, Response
from controlplane.lib.outbound import OutboundError, Timeout
from controlplane.lib.redact import redact_text

MAX_ATTEMPTS: Final = 14
FIRST_DELAY: Final = 5.0
LONGEST_DELAY: Final = 8 * 3600.0
LONGEST_RETRY_AFTER: Final = 6 * 3600.0
CONNECT_SECONDS: Final = 3.0
MOST_SECONDS: Final = 15.0
MAX_ANSWER: Final = 64 * 1024
ANSWER_KEPT: Final = 2000
GONE: Final = 410
RETRIED: Final = frozenset({408, 409, 423, 424, 425, 429})
"""The refusals that may pass by themselves; like every 5xx they are tried again. Any other 3xx or 4xx is final."""

PAUSING: Final = frozenset({429, 503})
"""With Retry-After these ask for silence, so the endpoint's other messages wait too."""


class Health(StrEnum):
    """What an attempt says about the endpoint itself."""

    WELL = "well"
    ALIVE = "alive"
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent: the same body under the same id in every attempt, signed with every secret that is valid now."""

    id: str
    url: str
    body: bytes
    secrets: Sequence[str]
    timestamp: int
    seconds: float = MOST_SECONDS


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of an attempt, and what follows from it."""

    state: str
    result: str
    health: Health
    status: int | None = None
    answer: str = ""
    reason: str = ""
    ms: float = 0.0
    delay: float = 0.0
    pause: float = 0.0
    gone: bool = False


def attempt(message: Message, client: Client, *, number: int) -> Attempt:
    """Send the message once and judge the answer; `number` counts attempts from 1."""
    headers = webhooks.headers(message.id, message.timestamp, message.body, message.secrets)
    try:
        response = client.post(
            message.url,
            headers={**headers, "Content-Type": "application/json"},
            body=message.body,
            timeout=limits(message.seconds),
            max_bytes=MAX_ANSWER,
            idempotent=True,
        )
    except OutboundError as error:
        return unanswered(error, number=number)
    return judge(response, number=number)


def limits(seconds: float) -> Timeout:
    """The time limits of one attempt: little for connecting, so that a dead address costs little."""
    total = min(seconds, MOST_SECONDS)
    return Timeout(connect=min(CONNECT_SECONDS, total), read=total, total=total)


def judge(response: Response, *, number: int) -> Attempt:
    """What an answer means: accepted, to be tried again, or final."""
    status, ms = response.status, response.elapsed * 1000
    answer = redact_text(response.body[: ANSWER_KEPT * 4].decode("utf-8", "replace"))[:ANSWER_KEPT]
    if response.ok:
        return Attempt("delivered", "answered", Health.WELL, status, answer, "", ms)
    reason = f"The endpoint answered {status}."
    if status == GONE:
        reason = "The endpoint answered 410: it is gone for good."
        return Attempt("dead", "answered", Health.ALIVE, status, answer, reason, ms, gone=True)
    if 300 <= status < 400:
        reason = (
            f"The endpoint answered {status}; redirects are not followed, the reviewed URL is the one that is called."
        )
    if status not in RETRIED and status < 500:
        return Attempt("dead", "answered", Health.ALIVE, status, answer, reason, ms)
    asked = retry_after(response)
    pause = asked if status in PAUSING else 0.0
    state, delay = _again(number, asked)
    return Attempt(state, "answered", Health.FAILING, status, answer, _last(state, reason), ms, delay, pause)


def unanswered(error: OutboundError, *, number: int) -> Attempt:
    """What a missing answer means; `sent` separates "not sent" from "it may have arrived"."""
    result = "unanswered" if error.sent else "unsent"
    reason = f"{error.message}; it may have arrived." if error.sent else f"{error.message}."
    if error.kind == "refused_address" or (error.kind == "protocol" and not error.sent):
        return Attempt("dead", result, Health.ALIVE, reason=reason[:500])
    state, delay = _again(number, 0.0)
    return Attempt(state, result, Health.FAILING, reason=_last(state, reason[:400]), delay=delay)


def backoff(number: int) -> float:
    """Seconds until the next attempt: growing fourfold, with jitter so that what failed together returns apart."""
    return min(LONGEST_DELAY, FIRST_DELAY * 4.0 ** min(number - 1, 12)) * random.uniform(0.5, 1.0)  # noqa: S311


def retry_after(response: Response) -> float:
    """The seconds that an answer asks to wait, capped; a date is read by the peer's own clock."""
    text = response.header("retry-after").strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return min(float(text), LONGEST_RETRY_AFTER)
    moment = _moment(text)
    if moment is None:
        return 0.0
    now = _moment(response.header("date")) or datetime.now(UTC)
    return min(max((moment - now).total_seconds(), 0.0), LONGEST_RETRY_AFTER)


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _again(number: int, asked: float) -> tuple[str, float]:
    if number >= MAX_ATTEMPTS:
        return "dead", 0.0
    return "pending", max(backoff(number), asked)


def _last(state: str, reason: str) -> str:
    return f"{reason} This was the last of {MAX_ATTEMPTS} attempts." if state == "dead" else reason
