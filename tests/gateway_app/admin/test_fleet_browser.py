"""The fleet's pages in a real browser: a silent console under the strict policy, nothing wider than the window."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.utils import timezone

from gateway_app.models import Agent, Bundle, Enrolment, Receipt
from tests.browser import Chrome, chrome, live_plane  # noqa: F401  (fixtures)
from tests.conftest import World
from tests.controlplane.admin.test_browser import visit
from tests.gateway_app import fleet
from tests.hooks_app import governance
from tests.hooks_app.registry import acting, active_gate


def live_in(world: World) -> fleet.FakeAgent:
    """A fleet in which things have happened; the agent whose page is worth a look."""
    active_gate(world)
    governance.rule(world, "block-rm", governance.BLOCK_RM)
    governance.place(world, "gate", "block-rm")
    canary = fleet.agent(world, "build-1.example.com", ring="canary")
    drifted = fleet.agent(world, "build-2.example.com")
    silent = fleet.agent(world, "laptop-of-a-very-long-name-indeed")
    for agent in (canary, drifted, silent):
        agent.apply()
    fleet.stages(world, {"ring": "canary"}, {"share": 50}, minutes=30)
    governance.rule(world, "hardline", governance.HARDLINE)
    governance.place(world, "gate", "block-rm", "hardline")
    fleet.build(world)
    canary.apply()
    detail = f"sha256:{'a' * 64} instead of sha256:{'b' * 64}"
    drifted.report(
        drift=[{"kind": "script_changed", "what": "agent-hooks/gate/gate.sh", "detail": detail}],
        effective=drifted.receipt()["effective"][:1],
        hermes_version="0.20.0",
        missing_environment=["TICKET_TOKEN"],
    )
    with acting(world.alice):
        Agent.objects.filter(pk=silent.id).update(last_heard_at=timezone.now() - timedelta(hours=3))
    return drifted


def pages(world: World, agent: fleet.FakeAgent) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Every page of the fleet."""
    with acting(world.alice):
        rows = {
            "agent": agent.id,
            "enrolment": Enrolment.objects.first().pk,
            "bundle": Bundle.objects.first().pk,
            "receipt": Receipt.objects.filter(agent_id=agent.id).latest("received_at").pk,
            "rollout": fleet.rollout(world).pk,
        }
    yield "fleet-dashboard", "admin:index", ()
    for noun, pk in rows.items():
        yield f"{noun}-list", f"admin:gateway_app_{noun}_changelist", ()
        yield f"{noun}-page", f"admin:gateway_app_{noun}_change", (pk,)
    yield "enrolment-add", "admin:gateway_app_enrolment_add", ()
    yield "agent-revoke", "admin:gateway_app_agent_revoke", (agent.id,)
    yield "profile-page", "admin:controlplane_profile_change", (world.profile.pk,)
    yield "profile-settings", "admin:gateway_app_profile_settings", (world.profile.pk,)


def test_the_fleets_pages(chrome: Chrome, committed_world: World) -> None:  # noqa: F811
    agent = live_in(committed_world)
    chrome.log_in(committed_world.alice.user)
    visit(chrome, pages(committed_world, agent))
