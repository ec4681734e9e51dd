"""Test runs: asked for, written down, carried out by a worker in the sandbox, completed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Conflict, Invalid, NotFound
from controlplane.lib.json_body import BodyError, check_bounded
from controlplane.models import Profile, Role
from controlplane.services import audit
from hooks_app.engine.rule_problems import did_you_mean
from hooks_app.models import Hook, HookVersion, Kind, ProfileHook, RunState, TestRun
from hooks_app.sandbox import SandboxError
from hooks_app.services import doctor, hooks, renderings, sandboxes, secrets, synthetic, trials, webhook_calls

WHO = (Role.AUTHOR, Role.OWNER, Role.REVIEWER)
MAX_PAYLOAD_NODES = 10_000


class Unconfirmed(Conflict):
    """These bytes are not approved: confirm that they shall run, in the sandbox, without secrets and network."""

    code = "unapproved_bytes"


@transaction.atomic
def ask(
    *,
    version: HookVersion,
    actor: Actor,
    kind: str = "test",
    event: str = "",
    tool: str | None = None,
    payload: Mapping[str, Any] | None = None,
    profile: Profile | None = None,
    confirmed: bool = False,
) -> TestRun:
    """Write down what shall be run; unapproved bytes only after an explicit confirmation."""
    actor.require(version.team_id, *WHO)
    approved = is_approved(version)
    if kind == "test":
        if not approved and not confirmed and version.hook.kind != Kind.RULE:
            raise Unconfirmed
        event = _event(version, event)
        payload = _payload(version, event, tool, payload)
    else:
        payload = {"confirmed": confirmed}
    with scope.writing(version.team_id):
        run = TestRun.objects.create(
            team_id=version.team_id, version=version, kind=kind, event=event, payload=payload,
            profile=_profile(version, profile) if approved else None, approved=approved, requested_by_id=actor.user_id,
        )  # fmt: skip
        details = {"event": event, "digest": version.digest, "approved": approved, "confirmed": confirmed}
        audit.record(f"hook.{kind}_asked", actor=actor, team=version.team_id, target=version, details=details)
    return run


def is_approved(version: HookVersion) -> bool:
    """Whether these bytes are in force, or were put there by review and not revoked since."""
    hook = Hook.objects.for_team(version.team_id).get(pk=version.hook_id)
    return hook.active_version_id == version.pk and hook.revoked_at is None


def _event(version: HookVersion, event: str) -> str:
    names = list(version.manifest["events"])
    if not event and names:
        event = names[0]
    family = f"{event.split(':', 1)[0]}:*"
    if event not in names and family not in names:
        hint = did_you_mean(event, names)
        raise Invalid(f"{version.hook.name} does not listen to {event!r}; {hint}", field="event")
    return "command:help" if event == "command:*" else event


def _payload(version: HookVersion, event: str, tool: str | None, overrides: Mapping[str, Any] | None) -> dict[str, Any]:
    if overrides is not None and not isinstance(overrides, dict):
        raise Invalid("Must be a JSON object.", field="payload")
    try:
        check_bounded(overrides or {}, max_nodes=MAX_PAYLOAD_NODES)
    except BodyError as error:
        raise Invalid(error.message, field="payload") from None
    return synthetic.payload(version.hook.kind, event, tool=tool, overrides=overrides)


def _profile(version: HookVersion, profile: Profile | None) -> Profile | None:
    """The profile whose secrets and home the run may use: the one named, if the hook is in it."""
    if profile is None:
        return None
    if not ProfileHook.objects.for_team(version.team_id).filter(profile=profile, hook_id=version.hook_id).exists():
        raise Invalid(f"{version.hook.name} is not among the hooks of {profile.name}.", field="profile")
    return profile


def carry_out(*, team_id: UUID, run_id: UUID) -> TestRun:
    """Claim a pending run, run it outside any transaction, and complete its row; a run is carried out once."""
    with scope.team(team_id):
        with transaction.atomic():
            subject, run = _claim(team_id, run_id)
            approved_at = renderings.approved_at(run.version) if run.approved else ""
        try:
            result = _result(run, subject, approved_at)
        except (SandboxError, sandboxes.SandboxUnavailable, OSError, RuntimeError) as error:
            result = {"error": str(error), "problems": 1}
        with transaction.atomic():
            return _complete(run, result)


def _claim(team_id: UUID, run_id: UUID) -> tuple[trials.Subject, TestRun]:
    rows = TestRun.objects.for_team(team_id).select_related("version", "version__hook", "profile")
    run = rows.filter(pk=run_id).select_for_update(of=("self",)).first()
    if run is None:
        raise NotFound
    if run.state == RunState.DONE:
        raise Conflict("This run is done already.")
    run.state, run.started_at = RunState.RUNNING, timezone.now()
    run.approved = run.approved and is_approved(run.version)
    run.save(update_fields=["state", "started_at", "approved"])
    return _subject(run), run


def _subject(run: TestRun) -> trials.Subject:
    version, profile = run.version, run.profile if run.approved else None
    names = [variable["name"] for variable in version.manifest.get("environment", ())]
    return trials.Subject(
        name=version.hook.name, version=version.number, digest=version.digest, manifest=version.manifest,
        files=hooks.files_of(version), approved=run.approved, secrets=secrets.values(profile, names),
        home=sandboxes.home(profile.pk) if profile else None, signed_with=_signed_with(run),
    )  # fmt: skip


def _signed_with(run: TestRun) -> Sequence[str]:
    hook = run.version.hook
    return webhook_calls.secrets_of(run.team_id, hook.name) if hook.kind == Kind.WEBHOOK and run.approved else ()


def _result(run: TestRun, subject: trials.Subject, approved_at: str) -> dict[str, Any]:
    if run.kind == "doctor":
        may_run = run.approved or bool((run.payload or {}).get("confirmed"))
        return doctor.check(subject, sandboxes.require(), approved_at=approved_at, may_run=may_run)
    return trials.fire(subject, run.event, run.payload or {}, sandboxes.require())


def _complete(run: TestRun, result: dict[str, Any]) -> TestRun:
    run.result, run.problems = _storable(result), int(result["problems"])
    run.state, run.finished_at = RunState.DONE, timezone.now()
    run.save(update_fields=["result", "problems", "state", "finished_at"])
    return run


def _storable(value: Any) -> Any:
    """A hook's answer as Postgres can keep it: no NUL, no lone surrogates, nothing that is not JSON."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_storable(str(key)): _storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    finite = not isinstance(value, float) or (value == value and abs(value) != float("inf"))
    return value if isinstance(value, int | float | bool | None) and finite else str(value)


audit.register(
    {
        "hook.test_asked": "{actor} test-fired {target} for {event}",
        "hook.doctor_asked": "{actor} had {target} examined",
    }
)
