"""Sample data of the fleet."""

from __future__ import annotations

from uuid import uuid4

from django.utils import timezone

from controlplane.actor import SYSTEM, Actor
from controlplane.lib import canonical
from controlplane.services import actors
from gateway_app.models import Receipt
from gateway_app.services import bundles, enrolments, profile_settings, receipts, rollouts
from tests.samples import MARK, Filled


def fleet(filled: Filled) -> None:
    """An enrolment, an agent, its receipt, and what the profile delivers."""
    world = filled.world
    alice = actors.for_user(world.alice.user)
    issued = enrolments.create(profile=world.profile, actor=alice, name=MARK, uses=5)
    instance = uuid4()
    agent = enrolments.enrol(secret=issued.secret, name=MARK, instance=instance).agent
    profile_settings.put(profile=world.profile, actor=alice, wanted={"agent": {"approvals_deny": []}})
    settings = profile_settings.of(world.profile)
    settings.agent = {"approvals_deny": [MARK]}
    settings.save()
    bundle = bundles.build(profile=world.profile, reason=MARK, actor=SYSTEM)
    receipt = receipts.take(actor=acting_as(agent), instance=instance, body=said()).receipt
    assert bundle is not None
    rows = (issued.enrolment, agent, settings, bundle.version, bundle, rollouts.locked(world.profile), receipt)
    for row in rows:
        filled.add(row)
    assert Receipt.objects.count() == 1
    filled.parameters |= {
        ("enrolments", "id"): str(issued.enrolment.pk),
        ("agents", "id"): str(agent.pk),
        ("files", "digest"): "sha256:" + "0" * 64,
    }


def acting_as(agent: object) -> Actor:
    """The agent as a service sees it."""
    token = agent.token  # type: ignore[attr-defined]
    return Actor(
        kind="token", id=str(token.pk), label="agent", team_id=token.team_id, profile_id=token.profile_id,
        abilities=frozenset(token.abilities),
    )  # fmt: skip


def said() -> dict[str, object]:
    """A receipt for the first serial."""
    return {
        "id": str(uuid4()), "counter": 1, "at": canonical.moment(timezone.now()), "serial": 1, "outcome": "applied",
        "reason": MARK, "hermes_version": "0.19.0", "plugin_version": "1", "platform": MARK, "effective": [],
        "drift": [], "missing_environment": [], "health": {},
    }  # fmt: skip
