"""Deciding: from memory, recorded before it is answered, and never from a configuration that is no longer in force."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.db import direct
from controlplane.errors import Conflict, Forbidden, Invalid, PlaneError
from controlplane.lib import canonical
from controlplane.lib.ids import uuid7
from controlplane.lib.together import Together
from controlplane.services import sealing
from hooks_app.engine import events as catalogue
from hooks_app.models import Decision
from hooks_app.services import approvals, conclusions, effective
from hooks_app.services.conclusions import Conclusion
from hooks_app.services.effective import Effective

ATTEMPTS = 5
RECORD = "SELECT caduceus_decide(%s, %s)"
LOOK_UP = "SELECT * FROM caduceus_decided(%s, %s, %s)"
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
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


class Question(NamedTuple):
    """What a program wants to know before it acts; the key makes a retry the same question."""

    key: str
    profile: str
    event: str
    tool: str = ""
    input: Any = None
    session: str = ""
    context: Mapping[str, Any] = NOTHING

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


class Asked(NamedTuple):
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


def _known(rules: Effective, key: str, fingerprint: bytes, value: Any = None, masked: Any = None) -> bytes | None:
    """The first answer under this key, word for word; a value that was not kept is the one that comes of it again."""
    [(answer, mark)] = direct.rows(LOOK_UP, [rules.team_id, rules.profile_id, key])
    if answer is None:
        return None
    if bytes(mark) != fingerprint:
        raise KeyReused(field="id")
    told = json.loads(answer)
    if told.pop(MASKED, False):
        if told["value"] != masked:
            raise NotKept
        told["value"] = value
    return canonical.dumps(told)


class Record(NamedTuple):
    """A decision as Postgres receives it."""

    id: str
    row: str


def _record(team_id: UUID, records: Sequence[Record]) -> list[bool]:
    """Write decisions of one team in one statement; which of them were, because they are current and new."""
    rows = direct.rows(RECORD, [team_id, f"[{','.join(record.row for record in records)}]"])
    recorded = {str(row[0]) for row in rows}
    return [record.id in recorded for record in records]


_together = Together(_record)
"""What agents of one team ask at the same moment is recorded with one statement and one sync to disk."""


@dataclass(frozen=True, slots=True)
class Row:
    """A decision about to be recorded."""

    actor: Actor
    rules: Effective
    asked: Asked
    at: datetime
    conclusion: Conclusion
    id: str = field(default_factory=lambda: str(uuid7()))

    def record(self, approval: UUID | None) -> bytes | None:
        """Write it; the answer, or the first one under the same key, or None where it is stale."""
        answer = self._answer(approval)
        value, masked = answer["value"], self.rules.redactor.value(answer["value"])
        told = kept = canonical.dumps(answer)
        if masked is not value:
            kept = canonical.dumps({**answer, "value": masked, MASKED: True})
        record = Record(self.id, self._as_json(answer["rule"][:200], kept, approval))
        team_id = self.rules.team_id
        if connection.in_atomic_block:  # only this transaction can write it
            [is_recorded] = _record(team_id, [record])
        else:
            direct.let_go()
            is_recorded = _together(team_id, record)
        if is_recorded:
            return told
        return _known(self.rules, self.asked.question.key, self.asked.fingerprint, value, masked)

    def _as_json(self, rule: str, answer: bytes, approval: UUID | None) -> str:
        rules, question, conclusion = self.rules, self.asked.question, self.conclusion
        actor, payload, observed = self.actor.label[:300], self.asked.stored, conclusion.observed_outcome
        id, team_id, profile_id, at = self.id, str(rules.team_id), str(rules.profile_id), self.at.isoformat()
        said = (question.event, question.tool, question.session, observed, actor)
        digest = digest_of((id, team_id, profile_id, question.key, at, *said), payload, answer)
        head = _encode({
            "id": id, "profile_id": profile_id, "key": question.key, "at": at, "event": question.event,
            "tool": question.tool, "session": question.session, "outcome": conclusion.outcome, "hook": conclusion.hook,
            "rule": rule, "observed": observed, "configuration": rules.number, "actor": actor,
            "approval_id": str(approval) if approval else None,
        })  # fmt: skip
        marks = f'"fingerprint":"\\\\x{self.asked.fingerprint.hex()}","digest":"\\\\x{digest.hex()}"'
        return f'{head[:-1]},{marks},"payload":{payload.decode()},"answer":{answer.decode()}}}'

    def _answer(self, approval: UUID | None) -> dict[str, Any]:
        """What is told: nothing secret that a rule or a webhook repeats from the event is in its words."""
        answer = {"id": self.asked.question.key, "decision": self.id, **self.conclusion.answer()}
        if self.asked.is_secret or self.rules.calls_out(self.asked.question.event):
            answer |= self.rules.redactor.value({name: answer[name] for name in WORDS})
        answer["approval"] = str(approval) if approval else None
        answer["configuration"] = self.rules.number
        return answer


def digest_of(fields: tuple[str, ...], payload: bytes, answer: bytes) -> bytes:
    """What stands for one decision: its fields in a fixed order, and the canonical texts of payload and answer."""
    # No text in it can hold a NUL, so the joined fields cannot be read in two ways.
    return hashlib.sha256(b"\0".join(("\0".join(fields).encode(), payload, answer))).digest()


def digests(team_id: UUID, low: int, high: int) -> Iterator[tuple[UUID, bytes, bytes]]:
    """Each sealed decision's stored digest, and what its fields hash to now."""
    rows = Decision.objects.for_team(team_id).filter(commit_order__gte=low, commit_order__lt=high)
    for row in rows.order_by("id").iterator(chunk_size=2000):
        ids = (str(row.pk), str(row.team_id), str(row.profile_id), row.key, row.at.isoformat())
        said = (row.event, row.tool, row.session, row.observed, row.actor)
        now = digest_of((*ids, *said), canonical.dumps(row.payload), canonical.dumps(row.answer))
        columns = (row.outcome, row.hook, row.rule, str(row.approval_id) if row.approval_id else None)
        told = row.answer
        agree = columns == (told["outcome"], told["hook"], told["rule"][:200], told["approval"])
        yield row.pk, bytes(row.digest), now if agree else b""


sealing.register("decisions", sealing.Source(table="hooks_app_decision", digests=digests))
