"""The registry over REST: a hook's whole way, and what strangers and typos get."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any

import pytest
from django.test import Client

from hooks_app.models import TestRun
from tests.conftest import World
from tests.hooks_app.governance import place
from tests.hooks_app.registry import BLOCK, acting, active_gate, gate_body

HOOKS = "/api/v1/hooks"


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """One JSON request."""
    return getattr(client, method)(
        f"/api/v1/{path}", json.dumps(body or {}), content_type="application/json", headers=headers
    )


def body(**changes: Any) -> dict[str, Any]:
    """A shell gate as JSON."""
    return gate_body(files=[{"path": "gate.sh", "content": BLOCK.decode(), "mode": "0755"}], **changes)


def tar(**files: bytes) -> bytes:
    """A compressed tar archive of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def test_a_hook_goes_from_registration_to_force(world: World) -> None:
    alice, bob = world.alice.api(), world.bob.api()
    put = send(alice, "put", "hooks/gate", body(timeout=999, reason="guard the terminal"))
    assert put.status_code == 201, put.content
    answer = put.json()
    assert answer["hook"]["state"] == "inactive"
    assert "timeout=999s exceeds max 300s; clamping" in answer["version"]["warnings"]
    change = answer["change"]["id"]
    assert send(alice, "post", f"changes/{change}/submit").json()["state"] == "submitted"
    shown = bob.get(f"/api/v1/changes/{change}").json()
    assert [section["title"] for section in shown["diff"]] == ["specification", "gate.sh"]
    assert "+cat >/dev/null" in shown["diff"][1]["lines"]
    decided = send(bob, "post", f"changes/{change}/decide", {"approve": True, "digest": shown["digest"]})
    assert decided.json()["state"] == "applied", decided.content
    hook = alice.get(f"{HOOKS}/gate").json()
    assert (hook["state"], hook["active_version"]["digest"]) == ("active", shown["digest"])
    file = alice.get(f"{HOOKS}/gate/versions/1/files/gate.sh").json()
    assert file["content"] == BLOCK.decode()


def test_an_author_is_refused_at_their_own_change(world: World) -> None:
    alice = world.alice.api()
    change = send(alice, "put", "hooks/gate", body()).json()["change"]
    send(alice, "post", f"changes/{change['id']}/submit")
    refused = send(alice, "post", f"changes/{change['id']}/decide", {"approve": True, "digest": change["digest"]})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "self_review")


def test_everything_wrong_is_said_at_once_with_what_would_be_right(world: World) -> None:
    refused = send(world.alice.api(), "put", "hooks/gate", body(events=["pre_tool_cal"], matcher="(?=x)", fail_mod="x"))
    error = refused.json()["error"]
    found = {problem["field"]: problem["message"] + problem["hint"] for problem in error["details"]["problems"]}
    assert (refused.status_code, error["code"]) == (400, "invalid_hook")
    assert "did you mean 'pre_tool_call'" in found["events[0]"]
    assert "did you mean 'fail_mode'" in found["fail_mod"]
    assert "matcher" in found


def test_another_team_sees_nothing(world: World) -> None:
    active_gate(world)
    charlie = world.charlie.api()
    for path in ("hooks/gate", "hooks/gate/versions", "hooks/gate/diff", f"profiles/{world.profile.name}/hooks"):
        assert charlie.get(f"/api/v1/{path}").status_code == 404, path
    for path in ("hooks", "changes", "allowlists", "test-runs"):
        assert charlie.get(f"/api/v1/{path}").json()["results"] == []
    assert send(charlie, "post", "hooks/gate/revoke", {"reason": "x"}).status_code == 404


def test_an_outside_reviewer_gets_that_change_only(world: World) -> None:
    alice, charlie = world.alice.api(), world.charlie.browser()
    change = send(alice, "put", "hooks/gate", body()).json()["change"]
    send(alice, "post", f"changes/{change['id']}/submit")
    assert charlie.get(f"/api/v1/changes/{change['id']}").status_code == 404
    named = send(alice, "post", f"changes/{change['id']}/reviewers", {"user": world.charlie.user.username})
    assert named.status_code == 200, named.content
    assert charlie.get("/api/v1/changes/outside").json() == {"changes": [change["id"]]}
    assert charlie.get(f"/api/v1/changes/{change['id']}").json()["digest"] == change["digest"]
    assert charlie.get(f"{HOOKS}/gate").status_code == 404
    done = send(charlie, "post", f"changes/{change['id']}/decide", {"approve": True, "digest": change["digest"]})
    assert done.json()["state"] == "applied"


def test_a_stale_decision_says_what_changed(world: World) -> None:
    active_gate(world)
    alice, bob = world.alice.api(), world.bob.api()
    first = send(alice, "put", "hooks/gate", body(matcher="patch")).json()["change"]
    send(alice, "post", f"changes/{first['id']}/submit")
    second = send(alice, "put", "hooks/gate", body(timeout=5)).json()["change"]
    send(alice, "post", f"changes/{second['id']}/submit")
    send(bob, "post", f"changes/{second['id']}/decide", {"approve": True, "digest": second["digest"]})
    stale = send(bob, "post", f"changes/{first['id']}/decide", {"approve": True, "digest": first["digest"]})
    assert stale.status_code == 409
    assert stale.json()["error"]["details"]["changed"] == ["timeout"]
    rebased = send(alice, "post", f"changes/{first['id']}/rebase").json()
    assert (rebased["state"], rebased["id"] != first["id"]) == ("draft", True)


def test_revoking_and_letting_run_again(world: World) -> None:
    hook = active_gate(world)
    alice = world.alice.api()
    assert send(alice, "post", "hooks/gate/revoke").status_code == 400
    assert send(alice, "post", "hooks/gate/revoke", {"reason": "leaks"}).json()["state"] == "revoked"
    change = send(alice, "post", "hooks/gate/unrevoke", {"reason": "fixed"})
    assert change.status_code == 202
    assert alice.get(f"{HOOKS}/gate").json()["state"] == "revoked"
    stopped = send(alice, "post", "revoked-commands", {"command": "~/.hermes/agent-hooks/gate.sh", "reason": "x"})
    assert stopped.json() == {"hooks": 0, "entries": 0} or stopped.status_code == 404, hook


def test_a_stopped_command_is_listed_and_comes_back_by_review(world: World) -> None:
    active_gate(world)
    alice, stop = world.alice.api(), {"command": "~/.hermes/agent-hooks/gate.sh", "reason": "leaks"}
    assert send(alice, "post", "revoked-commands", stop).json() == {"hooks": 1, "entries": 0}
    [row] = alice.get("/api/v1/revoked-commands").json()["results"]
    assert (row["command"], row["reason"], row["lifted_at"]) == (stop["command"], "leaks", None)
    change = send(alice, "post", f"revoked-commands/{row['id']}/unrevoke", {"reason": "fixed"})
    assert (change.status_code, change.json()["kind"]) == (202, "command_unrevoke")
    submitted = send(alice, "post", f"changes/{change.json()['id']}/submit").json()
    decision = {"approve": True, "digest": submitted["digest"]}
    assert send(world.bob.api(), "post", f"changes/{submitted['id']}/decide", decision).json()["state"] == "applied"
    assert alice.get("/api/v1/revoked-commands").json()["results"] == []
    [lifted] = alice.get("/api/v1/revoked-commands?state=all").json()["results"]
    assert lifted["lifted_at"]
    again = send(alice, "post", f"revoked-commands/{row['id']}/unrevoke")
    assert (again.status_code, alice.get("/api/v1/revoked-commands?state=x").status_code) == (409, 400)


def test_a_gateway_hook_comes_as_an_archive(world: World) -> None:
    files = {
        "HOOK.yaml": b"name: log\nevents: [agent:start]\n",
        "handler.py": b"def handle(event_type, context):\n    pass\n",
    }
    put = world.alice.api().put(f"{HOOKS}/log?timeout=5", tar(**files), content_type="application/gzip")
    assert put.status_code == 201, put.content
    manifest = put.json()["version"]["manifest"]
    assert (manifest["kind"], manifest["timeout"], manifest["events"]) == ("gateway", 5, ["agent:start"])


@pytest.mark.parametrize("data", [b"", b"not an archive", tar(**{"../evil.sh": b"x"}), tar(**{"/etc/evil": b"x"})])
def test_a_bad_archive_is_a_clear_refusal(world: World, data: bytes) -> None:
    refused = world.alice.api().put(f"{HOOKS}/log", data, content_type="application/gzip")
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] in ("archive_refused", "invalid_hook")


def test_a_profile_is_arranged_at_once_or_by_review(world: World) -> None:
    active_gate(world)
    path, alice = f"profiles/{world.profile.name}/hooks", world.alice.api()
    added = send(alice, "put", path, {"hooks": [{"hook": "gate"}]})
    assert (added.status_code, added.json()["reasons"]) == (202, ["gate is new in this profile"])
    assert alice.get(f"/api/v1/{path}").json()["hooks"] == []
    place(world, ("gate", "observe"))
    tightened = send(alice, "put", path, {"hooks": [{"hook": "gate"}]})
    assert (tightened.status_code, tightened.json()["applied"]) == (200, True)
    removed = send(alice, "put", path, {"hooks": []})
    assert removed.status_code == 202
    assert removed.json()["reasons"] == ["the gate gate is removed"]
    assert [place["hook"] for place in alice.get(f"/api/v1/{path}").json()["hooks"]] == ["gate"]
    wrong = send(alice, "put", path, {"hooks": [{"hook": "gat"}]})
    assert "did you mean 'gate'" in wrong.json()["error"]["message"]


def test_a_secret_is_set_and_never_shown(world: World) -> None:
    path, alice = f"profiles/{world.profile.name}/secrets", world.alice.api()
    assert send(alice, "put", f"{path}/API_KEY", {"value": "hunter2-hunter2"}).status_code == 204
    shown = alice.get(f"/api/v1/{path}")
    assert shown.json()["variables"][0]["set"] is True
    assert b"hunter2" not in shown.content
    assert send(alice, "put", f"{path}/LD_PRELOAD", {"value": "x"}).status_code == 400
    assert send(alice, "delete", f"{path}/API_KEY").status_code == 204


def test_a_test_run_is_asked_for_and_unapproved_bytes_only_when_confirmed(world: World) -> None:
    alice = world.alice.api()
    send(alice, "put", "hooks/gate", body())
    refused = send(alice, "post", "hooks/gate/test", {"event": "pre_tool_call"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "unapproved_bytes")
    asked = send(alice, "post", "hooks/gate/test", {"event": "pre_tool_call", "confirmed": True})
    assert (asked.status_code, asked.json()["state"]) == (202, "pending")
    with acting(world.alice):
        assert TestRun.objects.get(pk=asked.json()["id"]).approved is False


def test_an_allowlist_entry_is_reviewed_and_its_end_is_not(world: World) -> None:
    alice, bob = world.alice.api(), world.bob.api()
    wanted = {"profile": world.profile.name, "kind": "sender", "scope": "telegram", "value": "42", "reason": "our user"}
    change = send(alice, "post", "allowlists", wanted)
    assert change.status_code == 202, change.content
    assert alice.get("/api/v1/allowlists").json()["results"] == []
    send(alice, "post", f"changes/{change.json()['id']}/submit")
    verdict = {"approve": True, "digest": change.json()["digest"]}
    assert send(bob, "post", f"changes/{change.json()['id']}/decide", verdict).json()["state"] == "applied"
    entry = alice.get("/api/v1/allowlists").json()["results"][0]
    assert (entry["value"], entry["reason"], entry["added_by"]) == ("42", "our user", world.alice.user.username)
    assert send(alice, "delete", f"allowlists/{entry['id']}").json()["state"] == "ended"


def test_a_home_is_imported_over_rest(world: World) -> None:
    home = tar(**{"config.yaml": b"hooks_auto_accept: true\nhooks: {}\n", ".env": b"API_KEY=abc\n"})
    answer = world.alice.api().post(
        f"/api/v1/imports?profile={world.profile.name}", home, content_type="application/gzip"
    )
    report = answer.json()
    assert [item["name"] for item in report["taken"]] == ["API_KEY"]
    assert report["skipped"][0]["name"] == "hooks_auto_accept"


def test_the_schema_describes_the_registry(world: World) -> None:
    schema = world.alice.api().get("/api/v1/schema", headers={"Accept": "application/vnd.oai.openapi+json"}).json()
    assert "/api/v1/hooks/{name}" in schema["paths"]
    assert "put" in schema["paths"]["/api/v1/hooks/{name}"]
