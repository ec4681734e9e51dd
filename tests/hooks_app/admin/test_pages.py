"""The hook pages call services, show refusals at their field, and show strangers nothing."""

from __future__ import annotations

import io
import re
import tarfile
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from controlplane.models import Role
from hooks_app.models import AllowlistEntry, Approval, Change, Grant, Hook, HookVersion, ProfileHook, Switch, TestRun
from hooks_app.services import approvals, changes, secrets, switches
from tests.conftest import World
from tests.hooks_app import governance, registry
from tests.hooks_app.governance import BLOCK_RM

RULE = 'events: [pre_tool_call]\nwhen: {tool: terminal}\nthen: {block: "no"}\n'


def text(response: Any) -> str:
    return str(response.content.decode())


def of(world: World, model: Any) -> Any:
    with registry.acting(world.alice):
        return model.objects.for_team(world.team).latest("id")


def test_a_rule_becomes_a_draft_that_its_author_submits(world: World) -> None:
    browser = world.alice.browser()
    sent = browser.post("/admin/hooks_app/hook/add/rule/", {"name": "no-shell", "rule": RULE, "reason": "safer"})
    change = of(world, Change)
    assert sent.status_code == 302 and str(change.pk) in sent["Location"]
    assert (change.state, change.target_label, change.reason) == ("draft", "no-shell", "safer")
    browser.post(f"/admin/hooks_app/change/{change.pk}/submit/")
    assert of(world, Change).state == "submitted"
    assert world.bob.browser().get("/admin/hooks_app/change/").content.count(b"waits for you") == 1


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("events: [pre_tool_cal]\nthen: {block: no}\n", "pre_tool_call"),
        ("events: [", "YAML"),
        ("events: [pre_tool_call]\nwhen: {tool: terminal}\nthen: {blok: x}\n", "block"),
    ],
)
def test_what_is_wrong_with_a_rule_stands_at_its_field(world: World, rule: str, said: str) -> None:
    page = text(world.alice.browser().post("/admin/hooks_app/hook/add/rule/", {"name": "x", "rule": rule}))
    row = page.split('<div class="form-row errors">')[1].split("</div>")[0]
    assert said in row and "id_rule" in row
    with registry.acting(world.alice):
        assert not Hook.objects.exists()


def test_an_uploaded_script_is_stored_as_reviewed_bytes(world: World) -> None:
    upload = SimpleUploadedFile("gate.sh", registry.BLOCK)
    values = {"name": "gate", "command": "~/.hermes/agent-hooks/gate.sh", "events": ["pre_tool_call"], "timeout": "60",
              "fail_mode": "closed", "script": upload}  # fmt: skip
    sent = world.alice.browser().post("/admin/hooks_app/hook/add/shell/", values)
    assert sent.status_code == 302
    (entry,) = of(world, HookVersion).manifest["files"]
    assert (entry["path"], entry["mode"], entry["size"]) == ("gate.sh", "0755", len(registry.BLOCK))


def test_a_plugin_is_uploaded_as_an_archive_and_the_wrong_kind_is_named(world: World) -> None:
    files = {
        "p/plugin.yaml": b"name: p\nprovides_hooks: [pre_tool_call]\n",
        "p/__init__.py": b"def register(ctx):\n    ctx.register_hook('pre_tool_call', print)\n",
    }
    browser = world.alice.browser()

    def sent(kind: str) -> Any:
        upload = SimpleUploadedFile("p.tgz", packed(files))
        return browser.post(f"/admin/hooks_app/hook/add/{kind}/", {"name": "p", "archive": upload})

    assert "This is a plugin hook" in text(sent("gateway"))
    assert sent("plugin").status_code == 302
    assert of(world, Hook).kind == "plugin"


def test_only_authors_register(world: World) -> None:
    assert world.bob.browser().get("/admin/hooks_app/hook/add/").status_code == 403
    world.bob.browser().post("/admin/hooks_app/hook/add/rule/", {"name": "x", "rule": RULE})
    with registry.acting(world.alice):
        assert not Hook.objects.exists()


def test_the_author_cannot_consent_by_address(world: World) -> None:
    change = registry.put(world).change
    assert change is not None
    browser = world.alice.browser()
    browser.post(f"/admin/hooks_app/change/{change.pk}/submit/")
    sent = browser.post(f"/admin/hooks_app/change/{change.pk}/consent/", {"digest": change.digest})
    assert sent.status_code == 403
    assert of(world, Change).state == "submitted"


def test_consent_is_for_the_digest_on_the_page(world: World) -> None:
    change = registry.put(world).change
    assert change is not None
    world.alice.browser().post(f"/admin/hooks_app/change/{change.pk}/submit/")
    page = world.bob.browser().post(f"/admin/hooks_app/change/{change.pk}/consent/", {"digest": "sha256:" + "0" * 64})
    assert "not what you looked at" in text(page)
    assert of(world, Change).state == "submitted"


def test_an_outsider_sees_and_decides_the_one_change(world: World) -> None:
    change = registry.put(world).change
    assert change is not None
    browser, outsider = world.alice.browser(), world.charlie.browser()
    browser.post(f"/admin/hooks_app/change/{change.pk}/submit/")
    address = f"/admin/hooks_app/change/{change.pk}/change/"
    assert outsider.get(address).status_code == 404
    browser.post(f"/admin/hooks_app/change/{change.pk}/invite/", {"username": world.charlie.user.username})
    assert "Add the shell hook gate?" in text(outsider.get(address))
    assert "Add the shell hook gate" in text(outsider.get("/admin/"))
    outsider.post(f"/admin/hooks_app/change/{change.pk}/consent/", {"digest": change.digest})
    assert of(world, Change).state == "applied"
    assert outsider.get(f"/admin/hooks_app/hook/{change.target_id}/change/").status_code == 404


def test_breaking_the_glass_needs_an_emergency_and_is_loud(world: World) -> None:
    change = registry.put(world).change
    assert change is not None
    browser, address = world.alice.browser(), f"/admin/hooks_app/change/{change.pk}"
    browser.post(f"{address}/submit/")
    assert "This field is required" in text(browser.post(f"{address}/break_glass/", {"hours": "4"}))
    browser.post(f"{address}/break_glass/", {"hours": "4", "reason": "prod is down"})
    assert "In force without review" in text(browser.get(f"/admin/hooks_app/hook/{change.target_id}/change/"))


def test_revoking_says_what_it_does_and_needs_a_reason(world: World) -> None:
    hook = registry.active_gate(world)
    browser, address = world.bob.browser(), f"/admin/hooks_app/hook/{hook.pk}/revoke/"
    assert "fail mode decides" in text(browser.get(address))
    assert "This field is required" in text(browser.post(address, {"reason": ""}))
    browser.post(address, {"reason": "it leaks"})
    assert registry.fresh(world, hook).state == "revoked"


def test_unapproved_bytes_run_only_when_confirmed(world: World) -> None:
    put = registry.put(world)
    address = f"/admin/hooks_app/hook/{put.hook.pk}/try/1/"
    page = text(world.bob.browser().post(address, {"kind": "test", "event": "pre_tool_call", "payload": "{}"}))
    assert "These bytes are not approved" in page
    values = {"kind": "test", "event": "pre_tool_call", "payload": "{}", "confirmed": "on"}
    assert world.bob.browser().post(address, values).status_code == 302
    assert of(world, TestRun).state == "pending"


def test_a_secret_is_never_shown(world: World) -> None:
    browser, address = world.alice.browser(), f"/admin/controlplane/profile/{world.profile.pk}/secrets/"
    browser.post(address, {"name": "API_TOKEN", "value": "s3cr3t-value"})
    page = text(browser.get(address))
    assert "API_TOKEN" in page and "s3cr3t-value" not in page
    with registry.acting(world.alice):
        assert secrets.values(world.profile, ["API_TOKEN"]) == {"API_TOKEN": "s3cr3t-value"}
    assert "LD_PRELOAD" in text(browser.post(address, {"name": "LD_PRELOAD", "value": "x"}))
    assert world.bob.browser().post(address, {"name": "API_TOKEN", "value": "x"}).status_code == 403


def test_a_gate_put_into_a_profile_or_taken_out_becomes_a_draft(world: World) -> None:
    hook = governance.rule(world, "no-deleting", BLOCK_RM)
    browser, address = world.alice.browser(), f"/admin/controlplane/profile/{world.profile.pk}/hooks/"
    sent = browser.post(address, {"do": "add", "hook": "no-deleting"})
    assert "/admin/hooks_app/change/" in sent["Location"]
    governance.place(world, "no-deleting")
    sent = browser.post(address, {"do": "remove:no-deleting"})
    assert "/admin/hooks_app/change/" in sent["Location"]
    assert of(world, Change).kind == "profile_hooks" and of(world, ProfileHook).hook_id == hook.pk


def test_an_allowlist_entry_is_proposed_not_added(world: World) -> None:
    values = {"profile": str(world.profile.pk), "kind": "command", "scope": "", "value": "git *", "reason": "daily",
              "lasts": "90"}  # fmt: skip
    sent = world.alice.browser().post("/admin/hooks_app/allowlistentry/add/", values)
    assert "/admin/hooks_app/change/" in sent["Location"]
    with registry.acting(world.alice):
        assert not AllowlistEntry.objects.exists()


def asked(world: World, session: str = "s-1", command: str = "rm -rf /srv/qz7") -> Approval:
    with registry.acting(world.alice):
        wanted = approvals.Request(key=session, command=command, description="d", session_key=session,
                                   pattern_keys=("recursive delete",))  # fmt: skip
        return approvals.create(profile=world.profile, actor=world.alice.actor, request=wanted)


def allowed(world: World, row: Approval, **how: Any) -> Grant:
    with registry.acting(world.bob):
        approvals.decide(approval=row, actor=world.bob.actor, choice="always", **how)
        return row.grants.get()


def two_approvers(world: World) -> None:
    """From now on two people have to allow what agents ask."""
    world.team.approvers_per_request = 2
    with registry.acting(world.alice):
        world.team.save(update_fields=["approvers_per_request"])


def test_a_decision_from_the_inbox_leaves_the_grant_that_was_previewed(world: World) -> None:
    row, browser = asked(world), world.bob.browser()
    assert "last 30 days" in text(browser.get(f"/admin/hooks_app/approval/{row.pk}/preview/?choice=always"))
    sent = browser.post(f"/admin/hooks_app/approval/{row.pk}/decide/", {"choice": "always", "days": "7"},
                        headers={"Accept": "application/json"})  # fmt: skip
    assert sent.json() == {"message": "Allowed until the date."}
    grant = of(world, Grant)
    assert 6 <= (grant.expires_at - grant.created_at).days <= 7
    again = browser.post(f"/admin/hooks_app/approval/{row.pk}/decide/", {"choice": "deny"},
                         headers={"Accept": "application/json"})  # fmt: skip
    assert again.status_code == 409 and "approved by" in again.json()["message"]


def test_the_inbox_answers_quickly_that_nothing_changed(world: World) -> None:
    row, browser = asked(world), world.bob.browser()
    first = browser.get("/admin/hooks_app/approval/live/").json()
    assert str(row.pk) in first["html"] and first["waiting"] == 1
    assert browser.get("/admin/hooks_app/approval/live/", {"mark": first["mark"]}).status_code == 204
    with registry.acting(world.bob):
        approvals.decide(approval=row, actor=world.bob.actor, choice="deny")
    assert browser.get("/admin/hooks_app/approval/live/", {"mark": first["mark"]}).status_code == 200


def test_strangers_find_nothing_behind_the_pages_of_our_own(world: World) -> None:
    row, stranger, change = asked(world), world.charlie.browser(), registry.put(world).change
    assert change is not None
    assert "qz7" not in text(stranger.get("/admin/hooks_app/approval/live/"))
    for address in (
        f"approval/live/?only={row.pk}", f"approval/{row.pk}/preview/?choice=always", f"change/{change.pk}/checks/",
        f"hook/{change.target_id}/edit/", f"hook/{change.target_id}/try/1/",
        f"event/story/?profile={world.profile.pk}&session=s-1", f"decision/explain/?decision={row.pk}",
    ):  # fmt: skip
        assert stranger.get(f"/admin/hooks_app/{address}").status_code == 404, address
    for page in ("hooks", "secrets", "import"):
        assert stranger.get(f"/admin/controlplane/profile/{world.profile.pk}/{page}/").status_code == 404
    assert stranger.post(f"/admin/hooks_app/approval/{row.pk}/decide/", {"choice": "once"}).status_code == 404


def test_the_story_tells_request_and_answer_in_order(world: World) -> None:
    row = asked(world)
    with registry.acting(world.bob):
        approvals.decide(approval=row, actor=world.bob.actor, choice="deny", note="never here")
    page = text(world.dana.browser().get(f"/admin/hooks_app/event/story/?profile={world.profile.pk}&session=s-1"))
    assert page.index("asked a person") < page.index("never here")


def test_a_switch_is_pulled_by_approvers_only(world: World) -> None:
    values = {"kind": "block", "profile": "", "message": "stop", "lasts": "900"}
    assert world.alice.browser().post("/admin/hooks_app/switch/add/", values).status_code == 403
    world.bob.browser().post("/admin/hooks_app/switch/add/", values)
    switch = of(world, Switch)
    assert "Everything is blocked" in text(world.dana.browser().get("/admin/controlplane/profile/"))
    assert "Everything is blocked" not in text(world.charlie.browser().get("/admin/controlplane/profile/"))
    world.bob.browser().post(f"/admin/hooks_app/switch/{switch.pk}/release/")
    assert "Everything is blocked" not in text(world.dana.browser().get("/admin/controlplane/profile/"))


def test_two_reviewers_see_how_many_consents_are_missing(world: World) -> None:
    world.team.reviewers_per_change = 2
    with registry.acting(world.alice):
        world.team.save(update_fields=["reviewers_per_change"])
    change = registry.put(world).change
    assert change is not None
    with registry.acting(world.alice):
        changes.submit(change=change, actor=world.alice.actor)
    second = world.person(world.team, "erin", Role.REVIEWER)
    address = f"/admin/hooks_app/change/{change.pk}"
    world.bob.browser().post(f"{address}/consent/", {"digest": change.digest})
    assert "You have decided already" in text(world.bob.browser().get(f"{address}/change/"))
    second.browser().post(f"{address}/consent/", {"digest": change.digest})
    assert of(world, Change).state == "applied"


def test_a_home_is_uploaded_and_the_report_says_what_became_of_it(world: World) -> None:
    files = {
        ".hermes/config.yaml": b"hooks_auto_accept: true\nhooks:\n  pre_tool_call:\n    - {command: ~/.hermes/agent-hooks/gate.sh}\n",
        ".hermes/agent-hooks/gate.sh": registry.BLOCK,
        ".hermes/.env": b"API_KEY=s3cr3t-value\nLD_PRELOAD=/x.so\n",
    }
    browser, address = world.alice.browser(), f"/admin/controlplane/profile/{world.profile.pk}/import/"
    assert address in text(browser.get(f"/admin/controlplane/profile/{world.profile.pk}/change/"))
    page = text(browser.post(address, {"archive": SimpleUploadedFile("home.tgz", packed(files))}))
    skipped, taken = page.split('id="taken"')
    assert "never taken as consent" in skipped and "steers a loader" in skipped
    assert "gate" in taken and "stored as a secret" in taken and "s3cr3t-value" not in page
    assert of(world, Change).state == "draft"


def test_what_is_no_home_is_refused_at_the_field(world: World) -> None:
    browser, address = world.alice.browser(), f"/admin/controlplane/profile/{world.profile.pk}/import/"
    assert "Neither a tar nor a zip" in text(browser.post(address, {"archive": SimpleUploadedFile("x", b"x" * 99)}))
    assert "This field is required" in text(browser.post(address, {}))
    assert world.bob.browser().get(address).status_code == 403
    with registry.acting(world.alice):
        assert not Hook.objects.exists()


def test_explain_has_its_own_line_in_the_side_bar(world: World) -> None:
    side = text(world.dana.browser().get("/admin/hooks_app/decision/explain/")).split('id="plane-nav"')[1]
    assert '<a href="/admin/hooks_app/decision/explain/" aria-current="page">Explain' in side
    assert side.split("</nav>")[0].count("aria-current") == 1


def packed(files: dict[str, bytes]) -> bytes:
    """These files as a compressed tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_all_that_wait_are_counted_and_the_most_urgent_shown(world: World) -> None:
    two_approvers(world)
    for number in range(53):
        asked(world, f"s-{number}")
    first, browser = asked(world, "s-answered"), world.bob.browser()
    with registry.acting(world.bob):
        approvals.decide(approval=first, actor=world.bob.actor, choice="once")
    page = text(browser.get("/admin/hooks_app/approval/"))
    assert page.count("<article") == 50
    assert "50 of 54, the most urgent first" in page and "?state=pending" in page
    assert "53 related requests, the newest 4 here" in page
    assert ">53</span>" in page, "what waits for somebody else is not in the side bar's count"
    assert "The inbox: 53 waiting" in text(browser.get("/admin/"))
    assert browser.get("/admin/hooks_app/approval/live/").json()["waiting"] == 53
    assert "the newest 20 of 53" in text(browser.get(f"/admin/hooks_app/approval/{first.pk}/change/"))


def test_the_inbox_says_at_once_that_more_wait_than_it_shows(world: World) -> None:
    for number in range(50):
        asked(world, f"s-{number}")
    browser = world.bob.browser()
    first = browser.get("/admin/hooks_app/approval/live/").json()
    asked(world, "s-50")
    again = browser.get("/admin/hooks_app/approval/live/", {"mark": first["mark"]})
    assert "50 of 51" in again.json()["html"]


def test_a_grant_says_whether_it_is_for_one_command_or_for_all_that_fit(world: World) -> None:
    literal = allowed(world, asked(world, "s-1", "rm -rf /srv/star/*"))
    glob = allowed(world, asked(world, "s-2", "rm -rf /srv/star/qz7"), pattern="rm -rf /srv/star/*")
    browser = world.bob.browser()
    listed = text(browser.get("/admin/hooks_app/grant/"))
    for words, grant in (("exactly", literal), ("every command that fits", glob)):
        assert f"{words} <code>rm -rf /srv/star/*</code>" in listed
        page = text(browser.get(f"/admin/hooks_app/grant/{grant.pk}/change/"))
        assert f"{words} <code>rm -rf /srv/star/*</code>" in page
        assert f"/admin/hooks_app/approval/{grant.approval_id}/change/" in page


def test_a_grants_command_is_whole_on_its_page_and_visibly_cut_in_the_list(world: World) -> None:
    command = f"rm -rf /srv/{'x' * 300} && rm -rf /"
    grant, browser = allowed(world, asked(world, command=command)), world.bob.browser()
    assert f"{command[:300]}…</code>" in text(browser.get("/admin/hooks_app/grant/"))
    assert command.replace("&", "&amp;") in text(browser.get(f"/admin/hooks_app/grant/{grant.pk}/change/"))


def test_the_dashboard_shows_where_a_command_is_cut_and_leads_to_its_request(world: World) -> None:
    short, browser = asked(world, "s-1"), world.bob.browser()
    long = asked(world, "s-2", f"echo {'x' * 115} | sh && rm -rf /")
    page = text(browser.get("/admin/"))
    assert 'x…</code></a> <span class="quiet">(17 more characters) on deploy-bot' in page
    assert '/srv/qz7</code></a> <span class="quiet">on deploy-bot' in page
    for row in (short, long):
        assert f'href="/admin/hooks_app/approval/{row.pk}/change/"' in page


def test_a_requests_page_shows_its_card_and_keys_only_to_who_can_answer(world: World) -> None:
    row = asked(world)
    address, live = f"/admin/hooks_app/approval/{row.pk}/change/", f"/admin/hooks_app/approval/live/?only={row.pk}"
    bob, dana = world.bob.browser(), world.dana.browser()
    assert "<kbd>o</kbd> Allow once" in text(bob.get(address)) and "<kbd>o</kbd>" in bob.get(live).json()["html"]
    assert "<kbd>" not in text(dana.get(address))
    with registry.acting(world.bob):
        approvals.decide(approval=row, actor=world.bob.actor, choice="deny")
    for page in (text(bob.get(address)), bob.get(live).json()["html"]):
        assert page.count("<article") == 1
        assert not [words for words in ("Nobody waits", "Just decided", "<kbd>") if words in page]


def test_of_two_approvers_the_second_sees_the_firsts_answer_and_what_their_own_would_mean(world: World) -> None:
    two_approvers(world)
    row, erin = asked(world), world.person(world.team, "erin", Role.APPROVER)
    with registry.acting(world.bob):
        approvals.decide(approval=row, actor=world.bob.actor, choice="session", note="only now")
    page, first = text(erin.browser().get("/admin/hooks_app/approval/")), f"<strong>{world.bob.user.username}</strong>"
    assert f'Answered so far: {first} <span class="chip">session</span> “only now”' in page
    (always,) = re.findall('data-choice="always" data-says="([^"]*)"', page)
    assert "It counts as “session”" in always and "data-says-fits" not in page
    (once,) = re.findall('data-choice="once" data-says="([^"]*)"', page)
    assert "It counts as" not in once
    with registry.acting(erin):
        approvals.decide(approval=row, actor=erin.actor, choice="always")
    decided = text(erin.browser().get("/admin/hooks_app/approval/"))
    assert f"by {first}, <strong>{erin.user.username}</strong>" in decided


@pytest.mark.parametrize("only", [True, False])
def test_while_a_switch_blocks_everything_a_request_can_only_be_denied(world: World, only: bool) -> None:
    row, browser = asked(world), world.bob.browser()
    about = {"only": str(row.pk)} if only else {}

    def seen(mark: str = "") -> Any:
        return browser.get("/admin/hooks_app/approval/live/", {**about, "mark": mark})

    free = seen().json()
    with registry.acting(world.bob):
        pulled = switches.pull(team=world.team, actor=world.bob.actor, kind="block", message="Incident 42", seconds=60)
    stopped = seen(free["mark"]).json()
    assert re.findall('data-choice="([a-z]+)" disabled', stopped["html"]) == ["once", "session", "always"]
    assert 'data-choice="deny" data-says' in stopped["html"] and "Incident 42" in stopped["html"]
    assert seen(stopped["mark"]).status_code == 204
    assert re.findall("data-mark=.*? ", stopped["html"]) != re.findall("data-mark=.*? ", free["html"])
    with registry.acting(world.bob):
        switches.end(switch=pulled, actor=world.bob.actor)
    assert "disabled" not in seen(stopped["mark"]).json()["html"]
