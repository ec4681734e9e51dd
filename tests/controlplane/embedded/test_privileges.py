"""As root the services run as somebody else, who must be able to reach what they need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controlplane.embedded import privileges
from controlplane.embedded.refusal import Refusal

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@as_root
def test_root_becomes_somebody_else(tmp_path: Path) -> None:
    who = privileges.service_account(tmp_path)
    assert who is not None
    assert who.uid != 0


@as_root
def test_data_keeps_its_owner(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    os.chown(tmp_path / "postgres", 65534, 65534)
    who = privileges.service_account(tmp_path)
    assert who is not None
    assert who.uid == 65534


@as_root
def test_what_root_hides_cannot_be_reached(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    (hidden / "inner").mkdir(parents=True)
    hidden.chmod(0o700)
    assert not privileges.can_reach(hidden / "inner", privileges.Account("nobody", 65534, 65534))
    assert privileges.can_reach(Path("/usr/bin"), privileges.Account("nobody", 65534, 65534))


def test_ordinary_users_stay_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert privileges.service_account(tmp_path) is None


def test_own_directory_is_closed_to_others(tmp_path: Path) -> None:
    privileges.own_directory(tmp_path / "new", None)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_planted_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(Refusal, match="belongs to somebody else"):
        privileges.own_directory(tmp_path / "link", None)
