"""Deciding: from memory, recorded before it is answered, and never from a configuration that is no longer in force."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from psycopg import Cursor
from psycopg.types.json import Jsonb

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Conflict, Forbidden, Invalid, PlaneError
from controlplane.lib import canonical
from controlplane.lib.ids import uuid7
from controlplane.services import sealing
from hooks_app.engine import events as catalogue
from hooks_app.models import Decision
from hooks_app.services import approvals, conclusions, effective
from hooks_app.services.conclusions import Conclusion
from hooks_app.services.effective import Effective

ATTEMPTS = 5
RECORD = "SELECT * FROM caduceus_decide(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
LOOK_UP = "SELECT * FROM caduceus_decided(%s, %s, %s)"
NOTHING: Mapping[str, Any] = {}
WORDS = ("message", "rule", "explanation", "observed", "no_verdicts")
MASKED = "value_masked"
"""Marks a stored answer whose value held a secret: it was told, but is not kept."""


class UnknownEvent(Invalid):
    """There is no such event."""

    code = "unknown_event"


class KeyReused(PlaneError):
    """This id was used for another question."""

    code = "id_reused"
    status = 422


class Unsettled(Conflict):
    """The configuration kept changing while this was decided: ask again."""

    code = "unsettled"


class NotKept(Conflict):
    """The first answer held a secret, which is not stored: ask again under a new id."""

    code = "answer_not_kept"


class OtherProfile(Forbidden):
    """This token is bound to another profile."""

    code = "other_profile"


@dataclass(frozen=True, slots=True)
class Question:
    """What a program wants to know before it acts; the key makes a retry the same question."""

    key: str
    profile: str
    event: str
    tool: str = ""
    input: Any = None
    session: str = ""
    context: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    def payload(self) -> dict[str, Any]:
        """The event's payload as hooks know it."""
        payload = dict(self.context)
        if self.tool:
            payload["tool_name"] = self.tool
        if self.input is not None:
            payload["args"] = self.input
        if self.session:
            payload["session_id"] = self.session
        return payload


def decide(*, actor: Actor, team_id: UUID, question: Question) -> dict[str, Any]:
    """The answer to a question, recorded before it is given; the same one to whoever repeats the question."""
    return dict(json.loads(decide_text(actor=actor, team_id=team_id, question=question)))


def decide_text(*, actor: Actor, team_id: UUID, question: Question) -> bytes:
    """The answer as JSON, word for word as it was recorded."""
    check_event(question.event)
    payload = question.payload()
    text = canonical.dumps(payload)
    fingerprint = hashlib.sha256(f"{question.profile}\n{question.event}\n".encode() + text).digest()
    stale: int | None = None
    for _ in range(ATTEMPTS):
        rules = effective.of_profile(team_id, question.profile, than=stale)
        check_profile(actor, rules.profile_id)
        stored = rules.redactor.value(payload)
        is_secret = stored is not payload
        asked = Asked(question, payload, fingerprint, canonical.dumps(stored) if is_secret else text, is_secret)
        answer = _attempt(actor, rules, asked)
        if answer is not None:
            return answer
        stale = rules.number
    raise Unsettled


def check_event(event: str) -> None:
    """Refuse an event that no hook could listen to, with the one that was probably meant."""
    if catalogue.find(event) is None:
        meant = catalogue.suggest(event, catalogue.CATALOGUE)
        hint = f"Did you mean {meant}?" if meant else "The events are listed in the documentation."
        raise UnknownEvent(f"There is no event {event!r}. {hint}", field="event")


def check_profile(actor: Actor, profile_id: UUID) -> None:
    """Refuse a token that is bound to another profile."""
    if actor.profile_id is not None and actor.profile_id != profile_id:
        raise OtherProfile(field="profile")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question made ready: its payload as hooks see it, and as it is stored."""

    question: Question
    payload: dict[str, Any]
    fingerprint: bytes
    stored: bytes
    """The canonical text of the payload, redacted."""
    is_secret: bool
    """Whether something in it was redacted."""


def _attempt(actor: Actor, rules: Effective, asked: Asked) -> bytes | None:
    """Decide once; None where the configuration moved on meanwhile."""
    now, event = timezone.now(), asked.question.event
    if rules.calls_out(event):
        known = _known(rules, asked.question.key, asked.fingerprint)
        if known is not None:
            return known
    row = Row(actor, rules, asked, now, conclusions.conclude(rules, event, asked.payload, now))
    return _ask(row) if row.conclusion.outcome == "wait" else row.record(None)


def _ask(row: Row) -> bytes | None:
    """Create the request and its decision together, or find the ones that a first attempt created."""
    with scope.team(row.rules.team_id):
        try:
            with transaction.atomic():
                known = _known(row.rules, row.asked.question.key, row.asked.fingerprint)
                if known is not None:
                    return known
                approval = approvals.create_for(row)
                answer = row.record(approval.pk)
                if answer is None or str(approval.pk).encode() not in answer:
                    raise _MovedOn
                return answer
        except (_MovedOn, IntegrityError):
            return None


class _MovedOn(Exception):
    """Somebody else was first: undo and look again."""


def _known(rules: Effective, key: str, fingerprint: bytes) -> bytes | None:
    answer, mark = _one_row(LOOK_UP, [rules.team_id, rules.profile_id, key])
    return _same(answer, mark, fingerprint) if answer is not None else None


def _same(answer: str, mark: bytes, fingerprint: bytes, value: Any = None, masked: Any = None) -> bytes:
    """The first answer, word for word; a value that was not kept is the one that comes of the question again."""
    if bytes(mark) != fingerprint:
        raise KeyReused(field="id")
    told = json.loads(answer)
    if told.pop(MASKED, False):
        if told["value"] != masked:
            raise NotKept
        told["value"] = value
    return canonical.dumps(told)


def _one_row(sql: str, parameters: list[Any]) -> tuple[Any, ...]:
    """One prepared statement that brings its own scope: outside a transaction it is a transaction of its own."""
    if connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchone()
    connection.ensure_connection()
    plain = connection.connection
    plain.prepare_threshold = 0
    with connection.wrap_database_errors:
        return Cursor(plain).execute(sql, parameters, prepare=True).fetchone()


@dataclass(frozen=True, slots=True)
class Row:
    """A decision about to be recorded."""

    actor: Actor
    rules: Effective
    asked: Asked
    at: datetime
    conclusion: Conclusion
    id: UUID = field(default_factory=uuid7)

    def record(self, approval: UUID | None) -> bytes | None:
        """Write it in one statement; the answer, or the first one under the same key, or None where it is stale."""
        rules, question, conclusion = self.rules, self.asked.question, self.conclusion
        answer = self._answer(approval)
        value, masked = answer["value"], rules.redactor.value(answer["value"])
        told = kept = canonical.dumps(answer)
        if masked is not value:
            kept = canonical.dumps({**answer, "value": masked, MASKED: True})
        actor = self.actor.label[:300]
        said = (question.event, question.tool, question.session, conclusion.observed_outcome, actor)
        digest = digest_of(
            self.id, rules.team_id, rules.profile_id, question.key, self.at, said, self.asked.stored, kept
        )
        status, first, mark = _one_row(RECORD, [
            rules.team_id, rules.number, self.id, rules.profile_id, question.key, self.asked.fingerprint, self.at,
            question.event, question.tool, question.session, _jsonb(self.asked.stored), conclusion.outcome,
            conclusion.hook, answer["rule"][:200], _jsonb(kept), conclusion.observed_outcome, actor, approval, digest,
        ])  # fmt: skip
        if status == "recorded":
            return told
        return _same(first, mark, self.asked.fingerprint, value, masked) if status == "known" else None

    def _answer(self, approval: UUID | None) -> dict[str, Any]:
        """What is told: nothing secret that a rule or a webhook repeats from the event is in its words."""
        answer = {"id": self.asked.question.key, "decision": str(self.id), **self.conclusion.answer()}
        if self.asked.is_secret or self.rules.calls_out(self.asked.question.event):
            answer |= self.rules.redactor.value({name: answer[name] for name in WORDS})
        answer["approval"] = str(approval) if approval else None
        answer["configuration"] = self.rules.number
        return answer


def _jsonb(text: bytes) -> Jsonb:
    """JSON that is written already."""
    return Jsonb(text, dumps=bytes)


def digest_of(
    id: UUID,
    team_id: UUID,
    profile_id: UUID,
    key: str,
    at: datetime,
    said: tuple[str, ...],
    payload: bytes,
    answer: bytes,
) -> bytes:
    """What stands for one decision: its fields in a fixed order, and the canonical texts of payload and answer."""
    # No text in it can hold a NUL, so the joined fields cannot be read in two ways.
    head = "\0".join((str(id), str(team_id), str(profile_id), key, at.isoformat(), *said))
    return hashlib.sha256(b"\0".join((head.encode(), payload, answer))).digest()


def digests(team_id: UUID, low: int, high: int) -> Iterator[tuple[UUID, bytes, bytes]]:
    """Each sealed decision's stored digest, and what its fields hash to now."""
    rows = Decision.objects.for_team(team_id).filter(commit_order__gte=low, commit_order__lt=high)
    for row in rows.order_by("id").iterator(chunk_size=2000):
        said = (row.event, row.tool, row.session, row.observed, row.actor)
        texts = canonical.dumps(row.payload), canonical.dumps(row.answer)
        now = digest_of(row.pk, row.team_id, row.profile_id, row.key, row.at, said, *texts)
        columns = (row.outcome, row.hook, row.rule, str(row.approval_id) if row.approval_id else None)
        told = row.answer
        agree = columns == (told["outcome"], told["hook"], told["rule"][:200], told["approval"])
        yield row.pk, bytes(row.digest), now if agree else b""


sealing.register("decisions", sealing.Source(table="hooks_app_decision", digests=digests))
