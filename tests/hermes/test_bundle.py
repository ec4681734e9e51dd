"""Bundles at a real agent: what it believes, what it keeps, how quickly it follows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.lib.signing import KeyRing, SigningKey
from hermes_plugin import envelope
from tests.hermes.building import Home, finish
from tests.hermes.fake_plane import PROFILE, TEAM, FakePlane, content, rule

OLD = rule("old", then={"block": {"message": "old"}})
NEW = rule("new", then={"block": {"message": "new"}})


def trust(plane: FakePlane, **more: Any) -> envelope.Trust:
    return envelope.Trust(plane.ring, TEAM, PROFILE, **more)


def refused(raw: bytes, trusted: envelope.Trust) -> str:
    with pytest.raises(envelope.BundleRefused) as caught:
        envelope.verify(raw, trusted)
    return str(caught.value)


def test_hermes_agent_believes_a_signed_bundle() -> None:
    plane = FakePlane()
    verified = envelope.verify(plane.sign(content(OLD), 7), trust(plane, highest=6))
    assert (verified.serial, verified.content["hooks"][0]["name"]) == (7, "old")


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_hermes_agent_refuses_an_empty_or_truncated_answer(cut: int) -> None:
    plane = FakePlane()
    assert "empty" in refused(plane.sign(content(OLD), 7)[:cut], trust(plane)) or cut


def test_hermes_agent_refuses_what_was_changed_on_the_way() -> None:
    plane = FakePlane()
    raw = plane.sign(content(OLD), 7)
    assert refused(raw.replace(b"old", b"odd"), trust(plane)) == "the signature does not hold"


def test_hermes_agent_refuses_another_planes_key() -> None:
    plane, stranger = FakePlane(), FakePlane()
    assert "does not continue" in refused(stranger.sign(content(OLD), 7), trust(plane))
    assert "not in the ring" in refused(plane.sign(content(OLD), 7, key=stranger.key), trust(plane))


def test_hermes_agent_follows_a_rotated_key_and_never_goes_back() -> None:
    plane = FakePlane()
    pinned, old_key = trust(plane), plane.key
    new_key = SigningKey.generate()
    plane.ring = plane.ring.endorse(new_key.public, signer=old_key)
    verified = envelope.verify(plane.sign(content(OLD), 8, key=new_key), pinned)
    assert verified.ring == plane.ring
    later = envelope.Trust(verified.ring, TEAM, PROFILE, highest=8, key_id=verified.key_id)
    assert "was replaced" in refused(plane.sign(content(OLD), 9, key=old_key), later)
    forged = KeyRing(plane.ring.first)
    plane.ring = forged
    assert "does not continue" in refused(plane.sign(content(OLD), 9, key=old_key), later)


def test_hermes_agent_refuses_an_older_serial_and_a_second_content_of_the_same() -> None:
    plane = FakePlane()
    known = envelope.verify(plane.sign(content(OLD), 7), trust(plane))
    after = trust(plane, highest=7, content_digest=known.content_digest)
    assert "older than 7" in refused(plane.sign(content(NEW), 6), after)
    assert "another content" in refused(plane.sign(content(NEW), 7), after)
    assert envelope.verify(plane.sign(content(OLD), 7), after).serial == 7


def test_hermes_agent_refuses_a_manifest_that_is_not_what_people_consented_to() -> None:
    plane = FakePlane()
    other = json.loads(json.dumps(OLD))
    other["manifest"]["fail_mode"] = "open"
    assert "does not have its digest" in refused(plane.sign(content(other), 7), trust(plane))


def test_hermes_agent_refuses_a_bundle_for_somebody_else() -> None:
    plane = FakePlane()
    raw = plane.sign(content(OLD), 7)
    assert "for profile" in refused(raw, envelope.Trust(plane.ring, TEAM, "other"))
    assert "for team" in refused(raw, envelope.Trust(plane.ring, "rival", PROFILE))


def test_hermes_takes_up_and_drops_hooks_without_a_restart(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(OLD))
    process = enrolled.start("""
start()
first = terminal('echo hi')
open('ready', 'w').close()
until(lambda: terminal('echo hi') == {"error": "new"})
open('again', 'w').close()
result = [first, until(lambda: (r := terminal('echo hi')).get("output") and r)]
""")
    plane.wait_for(lambda: (enrolled.path.parent / "ready").exists())
    plane.publish(content(NEW))
    plane.wait_for(lambda: (enrolled.path.parent / "again").exists())
    plane.publish(content())
    first, last = finish(process)
    assert first == {"error": "old"}
    assert last["output"] == "hi"
    applied = [r for r in plane.receipts if r["outcome"] == "applied"]
    assert {1, 2, 3} <= {r["serial"] for r in applied}
    counters = [r["counter"] for r in plane.receipts]
    assert len(set(counters)) == len(counters)
    assert applied[0]["effective"] == [
        {"name": "old", "kind": "rule", "digest": OLD["digest"], "events": ["pre_tool_call"]}
    ]
    assert applied[0]["hermes_version"] == "0.19.0"


def test_hermes_keeps_the_last_good_bundle_when_the_next_one_is_bad(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(OLD))
    process = enrolled.start("""
start()
open('ready', 'w').close()
until(lambda: _os.path.exists('go'))
result = terminal('echo hi')
""")
    plane.wait_for(lambda: (enrolled.path.parent / "ready").exists())
    good, plane.envelope = plane.envelope, plane.sign(content(), 2).replace(b'"serial\\":2', b'"serial\\":9')
    plane.wait_for(lambda: "signature" in enrolled.state().get("refused", ""))
    plane.envelope = b""
    plane.envelope = plane.sign(content(NEW), 1, key=SigningKey.generate())
    plane.envelope = good
    (enrolled.path.parent / "go").touch()
    assert finish(process) == {"error": "old"}
    assert enrolled.state()["highest"] == 1


def test_hermes_reports_a_refused_serial(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(OLD))
    assert enrolled.hermes("caduceus", "sync").returncode == 0
    missing = plane.script("gone", "#!/bin/sh\n")
    plane.files.clear()
    plane.publish(content(OLD, missing))
    done = enrolled.hermes("caduceus", "sync")
    assert done.returncode == 1
    assert "could not be fetched" in done.stdout
    last = [r for r in plane.receipts if r["outcome"] == "refused"][-1]
    assert last["serial"] == 2
    assert enrolled.run("start(); result = terminal('echo hi')") == {"error": "old"}


def test_hermes_enrols_only_with_the_key_that_the_token_names(home: Home, plane: FakePlane) -> None:
    plane.ring = KeyRing(SigningKey.generate().public)
    named = plane.token
    plane.ring = KeyRing(plane.key.public)
    plane.accepted = named
    done = home.hermes("caduceus", "enroll", plane.url, named)
    assert done.returncode == 1
    assert "somebody may sit between" in done.stderr
    assert not (home.path / "caduceus" / "agent.json").exists()


def test_hermes_says_why_it_was_not_enrolled(home: Home, plane: FakePlane) -> None:
    assert "not an enrolment token" in home.hermes("caduceus", "enroll", plane.url, "nonsense").stderr
    plane.accepted = "another"
    assert "enrolment_refused" in home.hermes("caduceus", "enroll", plane.url, plane.token).stderr
    plane.stop()
    assert "cannot be reached" in home.hermes("caduceus", "enroll", plane.url, plane.token).stderr
