"""Everything of an instance follows from its data directory, and sockets fit where the kernel wants them."""

from __future__ import annotations

from pathlib import Path

from controlplane.embedded.paths import LONGEST_SOCKET, POSTGRES_SOCKET, Instance


def test_sockets_lie_beside_the_data_when_that_is_short() -> None:
    assert Instance(Path("/srv/plane")).sockets == Path("/srv/plane/services/sockets")


def test_long_paths_move_the_sockets_and_stay_apart() -> None:
    one, other = Instance(Path("/srv") / ("x" * 90)), Instance(Path("/srv") / ("y" * 90))
    for instance in (one, other):
        assert len(str(instance.sockets / f"{POSTGRES_SOCKET}.lock")) <= LONGEST_SOCKET
    assert one.sockets != other.sockets


def test_services_home_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "services").symlink_to(tmp_path / "elsewhere")
    assert Instance(tmp_path / "var").postgres == tmp_path / "elsewhere" / "postgres"
