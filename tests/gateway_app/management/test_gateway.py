"""The fleet from the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.conftest import World
from tests.gateway_app import fleet
from tests.hooks_app import governance


def run(world: World, *words: str) -> None:
    call_command("gateway", *words, "--team", world.team.slug)


def test_status_is_red_until_all_agree(world: World, capsys: Any) -> None:
    agent = fleet.agent(world)
    with pytest.raises(SystemExit):
        run(world, "status")
    agent.apply()
    capsys.readouterr()
    run(world, "status")
    assert "1 of 1 agents as they should be" in capsys.readouterr().out
    agent.report(drift=[{"kind": "yolo", "what": "session"}])
    with pytest.raises(SystemExit):
        run(world, "status", "--json")
    (line,) = json.loads(capsys.readouterr().out)
    assert (line["state"], line["remark"]) == ("attention", "drift: yolo")


def test_an_enrolment_token_is_printed_with_its_command(world: World, capsys: Any) -> None:
    run(world, "enroll-token", "--profile", "deploy-bot", "--uses", "2")
    words = capsys.readouterr().out.split()
    assert words[:3] == ["hermes", "caduceus", "enroll"]
    assert fleet.enrol(words[-1]).status_code == 201


def test_rolling_back_names_the_change(world: World, capsys: Any) -> None:
    fleet.build(world)
    governance.rule(world, "block-rm", governance.BLOCK_RM)
    governance.place(world, "block-rm")
    fleet.build(world)
    with pytest.raises(SystemExit):
        run(world, "rollback", "--profile", "deploy-bot", "--serial", "1")
    assert "the gate block-rm is removed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("enroll-token", "--profile", "nobody"), "no profile called nobody"),
        (("enroll-token", "--profile", "deploy-bot", "--as", "nobody"), "--as USERNAME"),
        (("enroll-token", "--profile", "deploy-bot", "--uses", "0"), "greater than or equal to 1"),
        (("rollback", "--profile", "deploy-bot", "--serial", "7"), "never had the serial 7"),
    ],
)
def test_bad_usage_is_one_clear_line(world: World, words: tuple[str, ...], message: str) -> None:
    fleet.build(world)
    with pytest.raises(CommandError, match=message):
        run(world, *words)
