"""Hosted profiles: one warm hook host each, owned by one worker process at a time.

The owner holds a lease row, renews it, and takes calls from other workers over a socket. When it dies the lease runs out and
the next worker that needs the host becomes its owner.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.lib.ids import uuid7
from controlplane.models import Profile
from hooks_app.engine.layering import Place
from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Outcome, Returned
from hooks_app.models import Event, HookVersion, HostLease
from hooks_app.runners import host_line
from hooks_app.runners.profile import ProfileHosts
from hooks_app.runners.shell import run_shell_hook
from hooks_app.services import effective, hooks, runs, sandboxes, trials
from hooks_app.services import secrets as profile_secrets
from hooks_app.services.effective import Effective

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=15)
RENEW_SECONDS = 5.0
PATIENCE_SECONDS = 20.0
HOSTED_KINDS = ("gateway", "plugin")
TAKE = """
INSERT INTO hooks_app_hostlease AS lease (id, team_id, profile_id, owner, address, fence, expires_at)
VALUES (%(id)s, %(team)s, %(profile)s, %(owner)s, %(address)s, 1, %(until)s)
ON CONFLICT (profile_id) DO UPDATE
SET owner = EXCLUDED.owner, address = EXCLUDED.address, expires_at = EXCLUDED.expires_at,
    fence = lease.fence + (lease.owner <> EXCLUDED.owner)::int
WHERE lease.owner = EXCLUDED.owner OR lease.expires_at < now()
RETURNING fence
"""


@dataclass
class Owned:
    """A host that this process owns."""

    team_id: UUID
    profile: str
    profile_id: UUID
    line: host_line.HostLine
    valid_until: float
    number: int = -1
    loaded: tuple[object, ...] = ()
    hosts: ProfileHosts | None = None
    closed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while hooks are loaded, which may take long: no other profile waits for it."""

    def close(self) -> None:
        """Let go of the host and its socket."""
        self.line.close()
        with self.lock:
            self.closed = True
            if self.hosts is not None:
                self.hosts.close()


_owned: dict[UUID, Owned] = {}
_lock = threading.RLock()
_process = [0, ""]


def me() -> str:
    """This process, under a name that no other process had or will have."""
    if _process[0] != os.getpid():
        _process[:] = [os.getpid(), f"{os.uname().nodename}:{os.getpid()}:{secrets.token_hex(4)}"]
        _owned.clear()
    return str(_process[1])


def address_of(profile_id: UUID) -> Path:
    """Where this process takes calls for a profile; short, because a socket's path must be."""
    name = hashlib.sha256(f"{me()}:{profile_id}".encode()).hexdigest()[:12]
    return settings.VAR / "run" / "h" / f"{name}.s"


def call(
    *, team_id: UUID, profile: str, profile_id: UUID, hook: str, event: str, payload: Mapping[str, Any], timeout: float
) -> Sequence[Outcome]:
    """Give an event to a hosted hook, wherever its host lives."""
    asked = {"hook": hook, "event": event, "payload": dict(payload), "timeout": timeout}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        if take(team_id, profile, profile_id):
            return answer(profile_id, asked)
        with scope.team(team_id), transaction.atomic():
            lease = HostLease.objects.for_team(team_id).filter(profile_id=profile_id).first()
        try:
            if lease is not None:
                return host_line.ask(lease.address, asked, timeout=timeout + PATIENCE_SECONDS)
        except host_line.LineDown as down:
            if time.monotonic() > deadline:
                return [NoVerdict(NoVerdictKind.NOT_RUNNABLE, f"the profile's hook host is away: {down}")]
        time.sleep(0.5)


def take(team_id: UUID, profile: str, profile_id: UUID) -> bool:
    """Become or stay the owner of a profile's host; False where another process is."""
    with _lock:
        owner, owned = me(), _owned.get(profile_id)
        if owned is None:
            if not _lease(team_id, profile_id, owner):
                return False
            line = host_line.HostLine(address_of(profile_id), lambda asked: answer(profile_id, asked))
            _owned[profile_id] = Owned(team_id, profile, profile_id, line, time.monotonic() + LEASE.total_seconds())
            if len(_owned) == 1:
                threading.Thread(target=_keep_leases, args=(owner,), daemon=True, name="host-leases").start()
            return True
    return time.monotonic() < owned.valid_until - RENEW_SECONDS or _renew(owned)


def _renew(owned: Owned) -> bool:
    """Stay the owner; what this process has let go meanwhile is not taken again."""
    with _lock:
        if _owned.get(owned.profile_id) is not owned:
            return False
        if _lease(owned.team_id, owned.profile_id, me()):
            owned.valid_until = time.monotonic() + LEASE.total_seconds()
            return True
        del _owned[owned.profile_id]
    log.warning("lost the lease of %s; its host is ended", owned.profile)
    owned.close()
    return False


def _lease(team_id: UUID, profile_id: UUID, owner: str) -> bool:
    values = {
        "id": uuid7(), "team": team_id, "profile": profile_id, "owner": owner,
        "address": str(address_of(profile_id)), "until": timezone.now() + LEASE,
    }  # fmt: skip
    with scope.team(team_id), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(TAKE, values)
        return cursor.fetchone() is not None


def _keep_leases(owner: str) -> None:
    """Renew what this process owns; what cannot be renewed before it runs out is let go."""
    while _owned and me() == owner:
        time.sleep(RENEW_SECONDS)
        for owned in list(_owned.values()):
            try:
                _renew(owned)
            except Exception:
                log.exception("the lease of %s could not be renewed", owned.profile)
                if time.monotonic() > owned.valid_until:
                    with _lock:
                        _owned.pop(owned.profile_id, None)
                    owned.close()
    connection.close()


def answer(profile_id: UUID, asked: Mapping[str, Any]) -> Sequence[Outcome]:
    """Carry out a call in the host that this process owns, with the hooks that are approved now."""
    with _lock:
        owned = _owned.get(profile_id)
    hosts = _current(owned) if owned is not None else None
    if hosts is None:
        return [NoVerdict(NoVerdictKind.NOT_RUNNABLE, "this process no longer owns the profile's host")]
    return hosts.call(asked["hook"], asked["event"], asked["payload"], asked["timeout"]).outcomes


def _current(owned: Owned) -> ProfileHosts | None:
    """The running host; a new one where the approved hooks or their secrets changed since it was loaded."""
    rules = effective.of(Profile(pk=owned.profile_id, team_id=owned.team_id, name=owned.profile))
    with owned.lock:
        if owned.closed:
            return None
        if owned.hosts is None or owned.number < rules.number:
            _load(owned, [p for p in rules.places if p.hook.kind in HOSTED_KINDS and p.silent is None])
            owned.number = rules.number
        return owned.hosts


def _load(owned: Owned, places: Sequence[Place]) -> None:
    """Start a host with these hooks, unless the one that runs has just them."""
    with scope.team(owned.team_id), transaction.atomic():
        subjects = [subject(owned.team_id, owned.profile_id, place) for place in places]
    wanted = tuple((one.name, one.digest, sorted(one.secrets.items())) for one in subjects)
    if owned.hosts is not None and owned.loaded == wanted:
        return
    if owned.hosts is not None:
        owned.hosts.close()
    owned.loaded, owned.hosts = (
        wanted,
        ProfileHosts(
            owned.profile,
            [one.hosted() for one in subjects],
            sandboxes.require(),
            secrets={name: value for one in subjects for name, value in one.secrets.items()},
            home=sandboxes.home(owned.profile_id),
        ),
    )
    for report in owned.hosts.start():
        if not report.loaded:
            log.warning("%s of %s did not load: %s", report.name, owned.profile, report.error)


def subject(team_id: UUID, profile_id: UUID, place: Place) -> trials.Subject:
    """An approved version as the sandbox runs it, with the profile's secrets and home."""
    versions = HookVersion.objects.for_team(team_id).filter(hook__name=place.hook.name, digest=place.hook.digest)
    version = versions.select_related("hook").order_by("-number")[0]
    profile = Profile.objects.for_team(team_id).get(pk=profile_id)
    names = [variable["name"] for variable in version.manifest.get("environment", ())]
    return trials.Subject(
        name=version.hook.name, version=version.number, digest=version.digest, manifest=version.manifest,
        files=hooks.files_of(version), approved=True, secrets=profile_secrets.values(profile, names),
        home=sandboxes.home(profile_id),
    )  # fmt: skip


def by_host(rules: Effective, place: Place, event: Event) -> Outcome:
    """What a hosted Python hook answers; the first answer where it has several callbacks."""
    outcomes = call(
        team_id=rules.team_id, profile=rules.profile, profile_id=rules.profile_id, hook=place.hook.name,
        event=event.event, payload=event.payload, timeout=float(place.hook.timeout),
    )  # fmt: skip
    spoken = [o for o in outcomes if isinstance(o, NoVerdict) or o.value is not None]
    return next(iter([*spoken, *outcomes]), Returned(None, reason="it has no callback for this event"))


def by_shell(rules: Effective, place: Place, event: Event) -> Outcome:
    """What an approved script answers in the sandbox."""
    with transaction.atomic():
        one = subject(rules.team_id, rules.profile_id, place)
    return run_shell_hook(one.shell_job(event.event, sandboxes.require()), event.payload).outcome


def close_all() -> None:
    """End every host of this process, and give its leases back."""
    with _lock:
        for owned in list(_owned.values()):
            owned.close()
            with scope.team(owned.team_id), transaction.atomic():
                rows = HostLease.objects.for_team(owned.team_id).filter(profile_id=owned.profile_id, owner=me())
                rows.update(expires_at=timezone.now() - LEASE)
        _owned.clear()


runs.HOSTED_RUNNERS.update({"gateway": by_host, "plugin": by_host, "shell": by_shell})
