"""The fleet's pages: what is wrong is red, secrets are shown once, services do the writing."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from gateway_app.models import Enrolment
from gateway_app.services import profile_settings
from tests.conftest import World
from tests.gateway_app import fleet
from tests.hooks_app import governance
from tests.hooks_app.registry import acting


def page(client: Client, name: str, *args: Any, query: str = "") -> str:
    """A page's text."""
    response = client.get(reverse(f"admin:{name}", args=args) + query)
    assert response.status_code == 200, response.content
    return response.content.decode()


def words(text: str) -> str:
    """What a person reads on a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


@pytest.fixture
def agent(world: World) -> fleet.FakeAgent:
    """An agent with one rule."""
    governance.rule(world, "block-rm", governance.BLOCK_RM)
    governance.place(world, "block-rm")
    enrolled = fleet.agent(world)
    enrolled.apply()
    return enrolled


def test_an_agent_is_red_until_it_has_what_is_meant(world: World, agent: fleet.FakeAgent) -> None:
    client = world.alice.browser()
    assert "badge on" in page(client, "gateway_app_agent_changelist")
    governance.rule(world, "hardline", governance.HARDLINE)
    governance.place(world, "block-rm", "hardline")
    fleet.build(world)
    listed = page(client, "gateway_app_agent_changelist")
    assert "#1, meant is #2" in listed
    assert "badge wrong" in listed
    agent.apply()
    assert "meant is" not in page(client, "gateway_app_agent_changelist")


def test_one_agents_page_says_what_is_loaded_and_what_drifted(world: World, agent: fleet.FakeAgent) -> None:
    agent.report(
        drift=[{"kind": "extra_hook", "what": "mine.sh", "detail": "not in the bundle"}],
        effective=[{"name": "mine", "kind": "shell", "digest": "", "events": ["pre_tool_call"]}],
        missing_environment=["TICKET_TOKEN"],
        hermes_version="0.20.0",
    )
    text = words(page(world.alice.browser(), "gateway_app_agent_change", agent.id))
    for said in ("It drifted", "extra_hook", "mine.sh", "not loaded", "not meant to be there", "TICKET_TOKEN",
                 "a version that the plane was not compared with", "Loaded since"):  # fmt: skip
        assert said in text, said


def test_a_copied_credential_is_shown_and_can_be_accepted(world: World, agent: fleet.FakeAgent) -> None:
    agent.send(agent.receipt() | {"counter": 1})
    client = world.alice.browser()
    assert "two places" in page(client, "gateway_app_agent_changelist", query="?look=two")
    client.post(reverse("admin:gateway_app_agent_accept", args=[agent.id]))
    assert agent.row().conflict == ""


def test_the_list_costs_the_same_for_many(world: World, agent: fleet.FakeAgent) -> None:
    client = world.alice.browser()
    page(client, "gateway_app_agent_changelist")
    with CaptureQueriesContext(connection) as few:
        page(client, "gateway_app_agent_changelist")
    for number in range(5):
        fleet.agent(world, f"more-{number}").apply()
    with CaptureQueriesContext(connection) as many:
        page(client, "gateway_app_agent_changelist")
    assert len(many) == len(few)


def test_a_ring_is_chosen_and_an_agent_revoked(world: World, agent: fleet.FakeAgent) -> None:
    client = world.alice.browser()
    address = reverse("admin:gateway_app_agent_change", args=[agent.id])
    assert client.post(address, {"ring": "Not A Ring", "revision": "1"}).status_code == 200
    assert client.post(address, {"ring": "canary", "revision": "1"}).status_code == 302
    assert agent.row().ring == "canary"
    client.post(reverse("admin:gateway_app_agent_revoke", args=[agent.id]))
    assert agent.row().revoked_at is not None
    assert agent.fetch().status_code == 401


def test_an_enrolment_token_is_shown_once(world: World) -> None:
    client = world.alice.browser()
    values = {"profile": str(world.profile.pk), "name": "image", "uses": "2", "ring": "", "lifetime": "24"}
    shown = client.post(reverse("admin:gateway_app_enrolment_add"), values)
    secret = re.search(r"cae_[\w-]{43}\.[0-9a-f]{16}", shown.content.decode())
    assert secret
    with acting(world.alice):
        row = Enrolment.objects.get()
    later = page(client, "gateway_app_enrolment_change", row.pk)
    assert secret[0] not in later
    assert "0 of 2" in later
    assert fleet.enrol(secret[0]).status_code == 201
    client.post(reverse("admin:gateway_app_enrolment_revoke", args=[row.pk]))
    assert fleet.enrol(secret[0]).status_code == 401
    assert client.post(reverse("admin:gateway_app_enrolment_add"), values | {"uses": "0"}).status_code == 200


def test_who_sees_enrolment(world: World) -> None:
    address = reverse("admin:gateway_app_enrolment_add")
    assert world.bob.browser().get(address).status_code == 403
    assert world.bob.browser().get(reverse("admin:gateway_app_enrolment_changelist")).status_code == 403


def test_a_rollout_is_watched_and_moved(world: World, agent: fleet.FakeAgent) -> None:
    client = world.alice.browser()
    rollout = fleet.rollout(world)
    address = reverse("admin:gateway_app_rollout_change", args=[rollout.pk])
    policy = {"minutes": "5", "most_refusals": "0", "most_error_percent": "5", "most_p99_ms": "100"}
    wrong = client.post(address, policy | {"stages": '[{"share": 0}]', "revision": str(rollout.revision)})
    assert "Nothing was saved" in wrong.content.decode()
    right = client.post(address, policy | {"stages": '[{"ring": "canary"}]', "revision": str(rollout.revision)})
    assert right.status_code == 302
    governance.rule(world, "hardline", governance.HARDLINE)
    governance.place(world, "block-rm", "hardline")
    fleet.build(world)
    assert "#2 for the ring canary (stage 1 of 1)" in page(client, "gateway_app_rollout_changelist")
    assert "#2 for the ring canary (stage 1 of 1)" in page(client, "controlplane_profile_change", world.profile.pk)
    client.post(reverse("admin:gateway_app_rollout_back", args=[rollout.pk]))
    assert "went back" in page(client, "gateway_app_rollout_change", rollout.pk)
    client.post(reverse("admin:gateway_app_rollout_resume", args=[rollout.pk]))
    client.post(reverse("admin:gateway_app_rollout_advance", args=[rollout.pk]))
    assert fleet.rollout(world).stable.serial == 4


def test_rolling_back_a_bundle_leads_to_its_change(world: World, agent: fleet.FakeAgent) -> None:
    governance.rule(world, "hardline", governance.HARDLINE)
    governance.place(world, "block-rm", "hardline")
    fleet.build(world)
    client = world.alice.browser()
    with acting(world.alice):
        first = world.profile.bundles.get(serial=1)
    assert "block-rm" in page(client, "gateway_app_bundle_change", first.pk)
    done = client.post(reverse("admin:gateway_app_bundle_roll_back", args=[first.pk]))
    assert "/hooks_app/change/" in done["Location"]


def test_settings_are_typed_and_reviewed(world: World) -> None:
    client = world.alice.browser()
    address = reverse("admin:gateway_app_profile_settings", args=[world.profile.pk])
    tight = {"agent": '{"approvals_mode": "manual"}', "gateway": "", "approvals": "", "revision": "0"}
    assert client.post(address, tight).status_code == 302
    with acting(world.alice):
        assert profile_settings.value(world.profile)["agent"] == {"approvals_mode": "manual"}
    loose = client.post(address, tight | {"agent": "", "revision": "1"})
    assert "/hooks_app/change/" in loose["Location"]
    for wrong, message in (("{", "not JSON"), ('{"x": 1}', "is not a setting"), ("[]", "must be a mapping")):
        shown = client.post(address, tight | {"agent": wrong, "revision": "1"})
        assert message in shown.content.decode()
    assert world.bob.browser().post(address, tight).status_code == 403


def test_trouble_is_on_the_dashboard(world: World, agent: fleet.FakeAgent) -> None:
    client = world.alice.browser()
    assert "Agents in trouble" not in client.get("/admin/").content.decode()
    agent.report(drift=[{"kind": "yolo", "what": "session"}])
    assert "Agents in trouble" in client.get("/admin/").content.decode()


def test_receipts_can_be_read_whole(world: World, agent: fleet.FakeAgent) -> None:
    client = world.alice.browser()
    with acting(world.alice):
        receipt = agent.row().receipts.get()
    assert "build-7" in page(client, "gateway_app_receipt_changelist", query=f"?agent__id__exact={agent.id}")
    assert "hermes_version" in page(client, "gateway_app_receipt_change", receipt.pk)
