"""A private home that filled up can be emptied, by those who write hooks, and the audit says who did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controlplane import scope
from controlplane.models import AuditEntry
from hooks_app.sandbox import Limits, homes
from hooks_app.services import sandboxes
from tests.conftest import World


@pytest.fixture
def full(world: World) -> Path:
    """A home in which a hook left a file, and a link that leads out."""
    home = sandboxes.home(world.profile.pk)
    (home / "deep").mkdir()
    (home / "deep" / "big").write_bytes(b"x" * 100_000)
    (home / "out").symlink_to(home.parent)
    assert homes.check(home, Limits(home_bytes=1000), now=True)
    return home


def test_a_home_is_emptied_and_can_be_written_again(
    world: World, full: Path, django_capture_on_commit_callbacks: Any
) -> None:
    other = sandboxes.home(world.team.pk)
    with django_capture_on_commit_callbacks(execute=True):
        assert world.alice.api().delete("/api/v1/profiles/deploy-bot/home").status_code == 204
        assert list(full.iterdir()), "nothing happens before it is recorded"
    assert (list(full.iterdir()), homes.over_quota(full), other.exists()) == ([], None, True)
    with scope.team(world.team.pk):
        entry = AuditEntry.objects.for_team(world.team).latest("seq")
    assert (entry.action, entry.target_label) == ("profile.home_emptied", "deploy-bot")


def test_whoever_only_reviews_does_not_empty_it(world: World, full: Path) -> None:
    assert world.bob.api().delete("/api/v1/profiles/deploy-bot/home").status_code == 403
    assert (full / "deep" / "big").exists()
