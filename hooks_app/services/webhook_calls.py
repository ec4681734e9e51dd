"""How a webhook hook takes part in a decision: asked within its time limit, its silence left to its fail mode."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from controlplane.db import direct
from controlplane.lib import http, webhooks
from controlplane.lib.ids import uuid7
from controlplane.lib.json_body import BodyError, loads_bounded
from controlplane.lib.outbound import OutboundError, Timeout
from controlplane.lib.redact import Redactor
from hooks_app.engine.layering import Place
from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Outcome, Returned

MAX_SECONDS = 10.0
"""A decision is waited for: a webhook that takes longer is no verdict, whatever its own limit says."""

MAX_ANSWER = 256 * 1024

Call = Callable[[Place, str, Mapping[str, Any]], Outcome]


Secrets = Callable[[UUID, str], Sequence[str] | None]
"""The secrets that sign messages to a team's hook of this name; None while its endpoint is disabled or unknown."""

_secrets: list[Secrets] = []


def use(secrets: Secrets) -> None:
    """Have secrets looked up here; the part that delivers webhooks says so when it is ready."""
    _secrets[:] = [secrets]


def secrets_of(team_id: UUID, name: str) -> Sequence[str]:
    """The secrets that sign messages to this hook; none while its endpoint is disabled or unknown."""
    return (_secrets[0](team_id, name) if _secrets else None) or ()


def caller(*, team_id: UUID, redactor: Redactor) -> Call:
    """A function that asks the webhooks of this team, showing them nothing secret."""

    def call(place: Place, event: str, payload: Mapping[str, Any]) -> Outcome:
        secrets = secrets_of(team_id, place.hook.name)
        direct.let_go()
        return ask(place, event, redactor.value(dict(payload)), secrets)

    return call


def ask(place: Place, event: str, payload: Any, secrets: Sequence[str], *, test: bool = False) -> Outcome:
    """POST the signed event and read the answer; anything but readable JSON (or nothing) is no verdict."""
    if not secrets:
        return NoVerdict(NoVerdictKind.NOT_RUNNABLE, "its endpoint is disabled or not set up")
    message = {"event": event, "hook": place.hook.name, "digest": place.hook.digest, "payload": payload}
    body = json.dumps({**message, "test": True} if test else message).encode()
    message_id, seconds = f"msg_{uuid7().hex}", min(float(place.hook.timeout), MAX_SECONDS)
    headers = webhooks.headers(message_id, int(time.time()), body, secrets)
    limits = Timeout(connect=seconds, read=seconds, total=seconds)
    try:
        answer = http.client().post(
            place.url,
            headers={**headers, "content-type": "application/json"},
            body=body,
            timeout=limits,
            max_bytes=MAX_ANSWER,
        )
    except OutboundError as error:
        kind = NoVerdictKind.TIMED_OUT if error.kind == "timeout" else NoVerdictKind.NOT_RUNNABLE
        return NoVerdict(kind, error.message)
    if not answer.ok:
        return NoVerdict(NoVerdictKind.CRASHED, f"HTTP {answer.status}")
    if not answer.body.strip():
        return Returned()
    try:
        return Returned(loads_bounded(answer.body, max_bytes=MAX_ANSWER))
    except BodyError as error:
        return NoVerdict(NoVerdictKind.UNREADABLE, f"the answer cannot be used: {error.message}")
