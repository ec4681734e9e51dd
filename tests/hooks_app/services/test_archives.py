"""Archives that bite, directories whose links lead out, wheels."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

from hooks_app.services import archives
from hooks_app.services.archives import ArchiveRefused


def tar(*entries: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> bytes:
    """A tar archive of these entries."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for entry, content in entries:
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    """A link in a tar archive."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry, b""


def zipped(**files: bytes) -> bytes:
    """A zip archive of these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def bomb(kind: bytes) -> bytes:
    """A small archive whose one entry has a name, or attributes, of half a gigabyte."""
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = kind, 2**29
    packed = zlib.compressobj(wbits=31)
    parts = [packed.compress(entry.tobuf(format=tarfile.GNU_FORMAT))]
    parts += [packed.compress(bytes(2**24)) for _ in range(32)]
    return b"".join([*parts, packed.flush()])


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE], ids=["long name", "attributes"])
def test_a_bomb_in_what_an_archive_says_about_an_entry_is_refused(kind: bytes) -> None:
    with pytest.raises(ArchiveRefused, match="unpacks to more than"):
        archives.read_archive(bomb(kind))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_archive_is_refused(method: int) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("HOOK.yaml", b"events: []" * 50)
    data = bytearray(buffer.getvalue())
    data[50:65] = b"\xff" * 15
    with pytest.raises(ArchiveRefused, match="can be read"):
        archives.read_archive(bytes(data))


def test_a_directory_around_everything_is_taken_off_and_modes_are_kept() -> None:
    script = tarfile.TarInfo("hook/run.sh")
    script.mode = 0o755
    tree = archives.read_archive(tar((tarfile.TarInfo("hook/HOOK.yaml"), b"events: []"), (script, b"#!/bin/sh")))
    assert {path: file.executable for path, file in tree.files.items()} == {"HOOK.yaml": False, "run.sh": True}


@pytest.mark.parametrize(
    "data",
    [
        tar((tarfile.TarInfo("../x"), b"1")),
        tar((tarfile.TarInfo("a/../../x"), b"1")),
        tar((tarfile.TarInfo("/etc/passwd"), b"1")),
        tar(link("a", "/etc/passwd")),
        tar(link("a/b", "../../x")),
        tar(link("a", "../x", tarfile.LNKTYPE)),
        tar(link("a", "", tarfile.CHRTYPE)),
        zipped(**{"../x": b"1"}),
        zipped(**{"a\\..\\x": b"1"}),
        b"PK\x03\x04 not really",
        b"\x1f\x8b not really",
    ],
    ids=[
        "up",
        "sneaky up",
        "absolute",
        "link",
        "link up",
        "hard link",
        "device",
        "zip up",
        "zip windows",
        "zip",
        "gzip",
    ],
)
def test_what_leads_out_or_is_no_archive_is_refused(data: bytes) -> None:
    with pytest.raises(ArchiveRefused):
        archives.read_archive(data)


def test_a_link_that_stays_inside_is_left_out() -> None:
    tree = archives.read_archive(tar((tarfile.TarInfo("a"), b"1"), link("b", "a")))
    assert set(tree.files) == {"a"}


@pytest.mark.parametrize("make", [lambda zeros: zipped(a=zeros), lambda zeros: tar((tarfile.TarInfo("a"), zeros))])
def test_a_bomb_is_stopped_while_it_goes_off(make: object) -> None:
    with pytest.raises(ArchiveRefused, match="unpacks to more than"):
        archives.read_archive(make(bytes(archives.MAX_UNPACKED + 1)))  # type: ignore[operator]


def test_too_many_entries_are_refused() -> None:
    many = [(tarfile.TarInfo(f"f{number}"), b"") for number in range(archives.MAX_ENTRIES + 1)]
    with pytest.raises(ArchiveRefused, match="entries"):
        archives.read_archive(tar(*many))


def test_a_directory_with_a_link_out_of_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "secret").write_text("x")
    os.symlink(tmp_path / "secret", tmp_path / "home/config.yaml")
    with pytest.raises(ArchiveRefused, match="leads out"):
        archives.read_directory(tmp_path / "home")


def test_a_wheel_is_a_plugin_with_an_entry_point() -> None:
    points = b"[hermes_agent.plugins]\ncalc = calc_plugin:register\n"
    init = b"def register(ctx):\n    pass\n"
    wheel = zipped(
        **{"calc_plugin/__init__.py": init, "calc-1.dist-info/entry_points.txt": points, "calc-1.dist-info/RECORD": b""}
    )
    body, files = archives.body_of(archives.read_archive(wheel))
    assert body == {"kind": "plugin", "entry_point": "calc_plugin:register"}
    assert [file.path for file in files] == ["calc_plugin/__init__.py"]


def test_a_wheel_without_the_entry_point_is_refused() -> None:
    with pytest.raises(ArchiveRefused, match="exactly one entry point"):
        archives.body_of(
            archives.read_archive(zipped(**{"x/__init__.py": b"", "x-1.dist-info/entry_points.txt": b"[other]\na=b\n"}))
        )


def test_a_wheel_with_compiled_code_is_refused() -> None:
    points = b"[hermes_agent.plugins]\ncalc = calc_plugin\n"
    wheel = zipped(**{"calc_plugin/fast.so": b"\x7fELF", "calc-1.dist-info/entry_points.txt": points})
    with pytest.raises(ArchiveRefused, match=r"fast\.so.*Python files only"):
        archives.body_of(archives.read_archive(wheel))


def test_a_link_inside_an_archive_is_left_out_and_said_to_be() -> None:
    tree = archives.read_archive(tar((tarfile.TarInfo("a/HOOK.yaml"), b"1"), link("a/handler.py", "HOOK.yaml")))
    assert (list(tree.files), tree.left_out) == (["HOOK.yaml"], {"handler.py": "is a link: hand in the file itself"})
