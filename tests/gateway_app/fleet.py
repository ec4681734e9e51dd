"""Short ways to enrol agents and let them fetch, apply and report, as the plugin would."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from django.test import Client
from django.utils import timezone

from controlplane.lib import canonical
from gateway_app.models import Agent, Bundle, Rollout
from gateway_app.services import bundles, enrolments, rollouts, sync
from tests.conftest import Persona, World
from tests.hooks_app.registry import acting


def token(world: World, **values: Any) -> str:
    """An enrolment token for the world's profile."""
    with acting(world.alice):
        values = {"name": "build farm", **values}
        return enrolments.create(profile=world.profile, actor=world.alice.actor, **values).secret


def enrol(secret: str, **values: Any) -> Any:
    """The answer to an enrolment."""
    body = {"token": secret, "name": "build-7", "instance": str(uuid4()), **values}
    return Client().post("/api/v1/enroll", body, content_type="application/json")


@dataclass
class FakeAgent:
    """An agent that does what docs/bundle.md asks of it, without Hermes."""

    world: World
    id: UUID
    name: str
    secret: str
    instance: str
    counter: int = 0
    etag: str = ""
    serial: int = 0
    payload: dict[str, Any] = field(default_factory=dict)

    def headers(self, **more: str) -> dict[str, str]:
        """What every request of an agent carries."""
        return {"Authorization": f"Bearer {self.secret}", "Caduceus-Instance": self.instance, **more}

    def get(self, address: str, **headers: str) -> Any:
        """A GET as this agent."""
        return Client(headers=self.headers(**headers)).get(f"/api/v1/{address}")

    def post(self, address: str, body: Mapping[str, Any] | None = None, **headers: str) -> Any:
        """A POST as this agent."""
        client = Client(headers=self.headers(**headers))
        return client.post(f"/api/v1/{address}", dict(body or {}), content_type="application/json")

    def fetch(self, wait: int = 0) -> Any:
        """Ask for the bundle, remembering what came."""
        sync.forget()  # a desk is trusted for half a second: longer than a test takes
        held = {"If-None-Match": self.etag, "Caduceus-Serial": str(self.serial)} if self.etag else {}
        response = self.get(f"profiles/{self.world.profile.name}/bundle?wait={wait}", **held)
        if response.status_code == 200:
            self.etag = response["ETag"]
            self.payload = json.loads(response.json()["payload"])
        return response

    def receipt(self, **values: Any) -> dict[str, Any]:
        """A receipt under the next counter."""
        self.counter += 1
        return {
            "id": str(uuid4()),
            "counter": self.counter,
            "at": canonical.moment(timezone.now()),
            "serial": self.payload.get("serial", 1),
            "outcome": "applied",
            "hermes_version": "0.19.0",
            "plugin_version": "1.0.0",
            "platform": "Linux",
            "effective": [
                {key: hook[key] for key in ("name", "kind", "digest")} | {"events": hook["manifest"]["events"]}
                for hook in self.payload.get("content", {}).get("hooks", [])
            ],
            **values,
        }

    def report(self, **values: Any) -> Any:
        """Send a receipt."""
        return self.send(self.receipt(**values))

    def send(self, body: Mapping[str, Any]) -> Any:
        """Send this very receipt."""
        return self.post(f"profiles/{self.world.profile.name}/receipts", body)

    def apply(self) -> None:
        """Fetch what is meant for it and report it applied."""
        self.fetch()
        response = self.report()
        assert response.status_code == 201, response.content
        self.serial = self.payload["serial"]

    def row(self) -> Agent:
        """The agent as the plane knows it."""
        with acting(self.world.alice):
            return Agent.objects.select_related("profile", "token", "next_token").get(pk=self.id)


def agent(world: World, name: str = "build-7", **values: Any) -> FakeAgent:
    """A newly enrolled agent."""
    instance = str(uuid4())
    response = enrol(token(world, **values), name=name, instance=instance)
    assert response.status_code == 201, response.content
    body = response.json()
    return FakeAgent(world, UUID(body["agent"]["id"]), body["agent"]["name"], body["credential"]["secret"], instance)


def build(world: World) -> Bundle | None:
    """Build the profile's bundle, as the task does."""
    with acting(world.alice):
        return bundles.build(profile=world.profile)


def rollout(world: World) -> Rollout:
    """The profile's rollout."""
    with acting(world.alice):
        return rollouts.states([world.profile])[world.profile.pk]


def stages(world: World, *wanted: dict[str, Any], who: Persona | None = None, **values: Any) -> None:
    """Have new bundles go out in these stages, watched for no time unless said otherwise."""
    with acting(who or world.alice):
        given = {"stages": list(wanted), "minutes": 0, **values}
        rollouts.set_policy(profile=world.profile, actor=world.alice.actor, values=given)
