"""The pages about what agents did say all of it, in order, and are not deceived by names that agents choose."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from controlplane.models import Ability
from hooks_app.models import Decision, Event, ProfileMode, Run, Switch
from hooks_app.services import approvals
from tests.conftest import World
from tests.hooks_app import registry
from tests.hooks_app.governance import BLOCK_RM, ask, happened, place, report, rule

TRICK = "term\u202ein\u0430l"


def page(world: World, address: str) -> str:
    """What Dana, who may only look, is shown."""
    return str(world.dana.browser().get(f"/admin/hooks_app/{address}").content.decode())


def newest(world: World, model: Any) -> Any:
    """The row that was recorded last."""
    with registry.acting(world.alice):
        return model.objects.for_team(world.team).latest("id")


def test_no_name_that_an_agent_chose_is_shown_raw(world: World) -> None:
    ask(world.alice.api(Ability.DECIDE), tool=TRICK, session="s-1")
    report(world.alice.api(Ability.REPORT), happened(payload={"tool_name": TRICK}))
    decision, event = newest(world, Decision), newest(world, Event)
    addresses = [f"decision/{decision.pk}/change/", f"event/{event.pk}/change/", "decision/", "decision/explain/"]
    addresses += [f"decision/explain/?decision={decision.pk}", f"decision/?{urlencode({'tool': TRICK})}"]
    for address in addresses:
        shown = page(world, address).replace(f'value="{TRICK}"', "")
        assert "U+202E" in shown or "\\u202e" in shown, address
        assert "\u202e" not in shown, address
    assert "termU+202EinU+0430l ·" in page(world, addresses[0]).split("</title>")[0]


def test_the_story_of_a_deceptive_session_says_its_name(world: World) -> None:
    shown = page(world, f"event/story/?{urlencode({'profile': world.profile.pk, 'session': TRICK})}")
    assert "U+202E" in shown.split("<title>")[1].split("</title>")[0]
    assert "U+202E" in shown.split("<h1>")[1].split("</h1>")[0]


def test_what_explain_offers_to_edit_stays_what_was_recorded(world: World) -> None:
    ask(world.alice.api(Ability.DECIDE), "echo \u202e\u0430")
    shown = page(world, f"decision/explain/?decision={newest(world, Decision).pk}")
    assert "echo \\u202e\\u0430" in shown.split("<textarea")[1].split("</textarea>")[0]


def test_a_switchs_message_hides_nothing(world: World) -> None:
    values = {"kind": "block", "profile": "", "message": "st\u202eop", "lasts": "900"}
    world.bob.browser().post("/admin/hooks_app/switch/add/", values)
    for address in ("switch/", f"switch/{newest(world, Switch).pk}/change/"):
        shown = page(world, address)
        assert "\u202e" not in shown and "Pulled by" in shown and "by label" not in shown, address


def test_pulling_a_switch_is_not_called_adding_one(world: World) -> None:
    form = str(world.bob.browser().get("/admin/hooks_app/switch/add/").content.decode())
    assert 'value="Pull the switch"' in form and "Add kill switch" not in form


def test_what_observe_mode_let_pass_is_said(world: World) -> None:
    rule(world, "no-deleting", BLOCK_RM)
    place(world, ("no-deleting", "observe"))
    agent = world.alice.api(Ability.DECIDE)
    assert ask(agent, "rm -rf /srv")["outcome"] == "allow"
    shown = page(world, f"decision/{newest(world, Decision).pk}/change/")
    assert "(would block: no-deleting)" in shown and "No deleting here." in shown
    assert "nothing in force objected" in shown
    ask(agent, "ls")
    assert page(world, "decision/").count("(would block: no-deleting)") == 1
    for chosen in ("any", "block"):
        assert page(world, f"decision/?observed={chosen}").count('class="field-answer_shown"') == 1
    assert page(world, "decision/?observed=wait").count('class="field-answer_shown"') == 0


def test_the_story_tells_a_batch_in_the_order_of_its_report(world: World) -> None:
    named = ("pre_tool_call", "post_tool_call", "pre_llm_call", "post_llm_call")
    report(world.alice.api(Ability.REPORT), *(happened(name) for name in named))
    shown = page(world, f"event/story/?profile={world.profile.pk}&session=s-1").split('<ol class="story">')[1]
    places = [shown.index(f">{name}</a>") for name in named]
    assert places == sorted(places)


def test_an_answer_in_the_story_names_what_it_answers(world: World) -> None:
    with registry.acting(world.alice):
        wanted = approvals.Request(key="k", command="rm -rf /srv/qz7", description="d", session_key="s-1",
                                   pattern_keys=("recursive delete",))  # fmt: skip
        asked = approvals.create(profile=world.profile, actor=world.alice.actor, request=wanted)
    with registry.acting(world.bob):
        approvals.decide(approval=asked, actor=world.bob.actor, choice="once")
    shown = page(world, f"event/story/?profile={world.profile.pk}&session=s-1")
    assert "rm -rf /srv/qz7 — by " in shown


def test_rows_are_told_apart_by_what_they_are_about(world: World) -> None:
    agent = world.alice.api(Ability.DECIDE)
    ask(agent, "echo " + "x" * 200)
    ask(agent, tool="read_file", input={"path": "/srv/qz7\u202e"})
    shown = page(world, "decision/")
    assert f"<code>echo {'x' * 75}…</code>" in shown
    assert "/srv/qz7" in shown and "\u202e" not in shown
    report(world.alice.api(Ability.REPORT), happened())
    assert "<code>ls</code>" in page(world, "event/")


@pytest.mark.parametrize(
    ("event", "said"),
    [("pre_tool_call", "The fail mode, closed, decides: it is refused."), ("post_tool_call", "no gate")],
)
def test_a_run_without_a_verdict_shows_none(world: World, event: str, said: str) -> None:
    hook = registry.active_gate(world)
    report(world.alice.api(Ability.REPORT), happened(event))
    with registry.acting(world.alice):
        run = Run.objects.create(
            team=world.team, event_id=newest(world, Event).pk, event=event, profile=world.profile, hook=hook,
            version=hook.active_version, state="failed", verdict={"action": "allow"}, reason="timed out",
        )  # fmt: skip
    shown = page(world, f"run/{run.pk}/change/")
    assert said in shown and "&quot;allow&quot;" not in shown


def test_every_state_hides_nothing(world: World) -> None:
    assert "Agents that were stopped by a rule ask here." in page(world, "approval/?state=all")
    assert "Nothing matches." in page(world, "approval/?state=denied")
    assert "Nothing matches." in page(world, "approval/?state=all&q=qz7")


def test_a_story_is_told_of_the_profile_that_the_form_shows(world: World) -> None:
    ask(world.alice.api(Ability.DECIDE), "ls -qz7", session="s-1")
    assert "ls -qz7" in page(world, "event/story/?session=s-1")


def test_the_window_of_a_list_is_called_like_the_list(world: World) -> None:
    assert "<title>Decisions · Caduceus</title>" in page(world, "decision/")


def test_a_profile_on_trial_says_so_on_its_own_pages(world: World) -> None:
    said = "on trial: only observed until"
    places = (f"/admin/controlplane/profile/{world.profile.pk}/{name}/" for name in ("change", "hooks"))
    browser, addresses = world.alice.browser(), list(places)
    assert not any(said in browser.get(address).content.decode() for address in addresses)
    with registry.acting(world.alice):
        ProfileMode.objects.create(
            team=world.team, profile=world.profile, observe_until=timezone.now() + timedelta(hours=1), reason="new",
            set_by="alice",
        )  # fmt: skip
    assert all(said in browser.get(address).content.decode() for address in addresses)
