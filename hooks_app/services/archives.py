"""Trees of files from strangers: directories, archives, wheels; bombs and links that lead out are refused."""

from __future__ import annotations

import bz2
import configparser
import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from controlplane.errors import Invalid
from hooks_app.services.manifest_parts import SourceFile

MAX_ENTRIES = 5_000
MAX_UNPACKED = 64 * 2**20
MAX_RATIO = 200
CHUNK = 64 * 1024
ENTRY_POINTS = "hermes_agent.plugins"
COMPILED = (".so", ".pyd", ".dll", ".dylib", ".pyc")
LEFT_OUT = frozenset({"__pycache__", ".git", ".DS_Store", ".mypy_cache", ".ruff_cache", ".pytest_cache"})
NOT_OURS = LEFT_OUT | {
    "hermes-agent", "node", "sessions", "logs", "memories", "skills", "cron", "pairing", "sandboxes", "checkpoints",
    "audio_cache", "image_cache", "document_cache", "profiles",
}  # fmt: skip
"""What lies at the top of a Hermes home besides hooks: its own program, and what it remembers."""

BROKEN = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError,
    ArithmeticError, LookupError, NotImplementedError, RuntimeError,
)  # fmt: skip
"""What the readers of archives raise for one that is damaged."""
COMPRESSED: tuple[tuple[bytes, Callable[[IO[bytes]], IO[bytes]]], ...] = (
    (b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open),
)  # fmt: skip


class ArchiveRefused(Invalid):
    """The archive cannot be read safely."""

    code = "archive_refused"


@dataclass(frozen=True, slots=True)
class Tree:
    """Files below one root, by relative path, and what was left out with the reason."""

    files: dict[str, SourceFile]
    left_out: dict[str, str] = field(default_factory=dict)

    def get(self, path: str) -> SourceFile | None:
        """The file of this path."""
        return self.files.get(path)

    def below(self, directory: str) -> Tree:
        """The files of a directory, by their path inside it."""
        prefix = directory.rstrip("/") + "/" if directory else ""
        inside = {path[len(prefix) :]: file for path, file in self.files.items() if path.startswith(prefix)}
        left_out = {path[len(prefix) :]: why for path, why in self.left_out.items() if path.startswith(prefix)}
        files = {path: SourceFile(path, file.content, file.executable) for path, file in inside.items()}
        return Tree(files, left_out)

    def directories(self, within: str = "") -> list[str]:
        """The names of the directories directly below, in order."""
        return sorted({path.split("/", 1)[0] for path in self.below(within).files if "/" in path})

    def as_files(self) -> tuple[SourceFile, ...]:
        """The files in order of their paths, without caches and the like."""
        return tuple(self.files[path] for path in sorted(self.files) if not LEFT_OUT & set(path.split("/")))


def read_directory(root: Path, *, max_file: int = 2 * 2**20) -> Tree:
    """The files of a directory; a link that leads out of it is refused, what is absurdly large or no file left out."""
    base, tree, total = root.resolve(), Tree({}), 0
    if not base.is_dir():
        raise ArchiveRefused(f"{root} is not a directory.")
    for path in _walk(base, NOT_OURS):
        relative = path.relative_to(base).as_posix()
        if path.is_symlink() and not path.resolve().is_relative_to(base):
            raise ArchiveRefused(f"{relative} is a link that leads out of the directory.", field=relative)
        if not path.is_file():
            tree.left_out[relative] = "is not a file"
        elif path.stat().st_size > max_file:
            tree.left_out[relative] = f"is larger than {max_file} bytes"
        else:
            content = path.read_bytes()
            total += len(content)
            tree.files[relative] = SourceFile(relative, content, bool(path.stat().st_mode & 0o111))
        if total > MAX_UNPACKED or len(tree.files) > MAX_ENTRIES:
            raise ArchiveRefused(f"More than {MAX_ENTRIES} files or {MAX_UNPACKED} bytes.")
    return tree


def _walk(base: Path, passed_over: frozenset[str]) -> Iterator[Path]:
    for path in sorted(base.iterdir()):
        if path.name in passed_over:
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path, LEFT_OUT)
        else:
            yield path


def read_archive(data: bytes) -> Tree:
    """The files of a tar or zip archive; one directory around everything is taken off."""
    reader = _Unpacking(len(data))
    try:
        entries = _zip(data, reader) if zipfile.is_zipfile(io.BytesIO(data)) else _tar(data, reader)
        files = {file.path: file for file in entries}
    except BROKEN as error:
        raise ArchiveRefused(f"Neither a tar nor a zip archive that can be read: {error}") from None
    if not files:
        raise ArchiveRefused("The archive holds no files.")
    return _without_wrapper(Tree(files, reader.left_out))


class _Unpacking:
    """Counts what comes out of an archive, and stops a bomb while it goes off."""

    def __init__(self, packed: int) -> None:
        self.limit = min(MAX_UNPACKED, max(packed * MAX_RATIO, 2**20))
        self.entries = 0
        self.total = 0
        self.left_out: dict[str, str] = {}

    def count(self, name: str) -> str:
        """The entry's path, if it is one that stays inside."""
        self.entries += 1
        if self.entries > MAX_ENTRIES:
            raise ArchiveRefused(f"The archive holds more than {MAX_ENTRIES} entries.")
        path = name.removeprefix("./").rstrip("/")
        if name.startswith("/") or "\\" in name or ".." in PurePosixPath(path).parts or "\0" in name:
            raise ArchiveRefused(f"{name!r} leads out of the archive.", field=name[:200])
        return path

    def read(self, stream: IO[bytes]) -> bytes:
        """The entry's bytes, as long as the archive stays within its limit."""
        parts = []
        while chunk := stream.read(CHUNK):
            self.total += len(chunk)
            if self.total > self.limit:
                raise ArchiveRefused(f"The archive unpacks to more than {self.limit} bytes.")
            parts.append(chunk)
        return b"".join(parts)


def _zip(data: bytes, reader: _Unpacking) -> Iterator[SourceFile]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            path, mode = reader.count(entry.filename), entry.external_attr >> 16
            if entry.is_dir():
                continue
            if stat.S_ISLNK(mode):
                raise ArchiveRefused(f"{path!r} is a link; hand in the file itself.", field=path)
            with archive.open(entry) as stream:
                yield SourceFile(path, reader.read(stream), bool(mode & 0o111))


class _Bounded:
    """What a tar archive is read from: it also bounds what the archive says about its entries, such as long names."""

    def __init__(self, data: bytes, limit: int) -> None:
        opened = next((opened for magic, opened in COMPRESSED if data.startswith(magic)), lambda stream: stream)
        self._stream = opened(io.BytesIO(data))
        self._limit = self._left = limit

    def read(self, size: int) -> bytes:
        """The next bytes of the unpacked archive."""
        chunk = self._stream.read(size)
        self._left -= len(chunk)
        if self._left < 0:
            raise ArchiveRefused(f"The archive unpacks to more than {self._limit} bytes.")
        return chunk


def _tar(data: bytes, reader: _Unpacking) -> Iterator[SourceFile]:
    bounded = _Bounded(data, reader.limit + 4 * tarfile.BLOCKSIZE * MAX_ENTRIES)
    with tarfile.open(fileobj=bounded, mode="r|") as archive:
        for entry in archive:
            path = reader.count(entry.name)
            if entry.issym() or entry.islnk():
                _check_link(path, entry.linkname, hard=entry.islnk())
                reader.left_out[path] = "is a link: hand in the file itself"
                continue
            if entry.isdir():
                continue
            if not entry.isfile() or (stream := archive.extractfile(entry)) is None:
                raise ArchiveRefused(f"{path!r} is neither a file nor a directory.", field=path)
            yield SourceFile(path, reader.read(stream), bool(entry.mode & 0o111))


def _check_link(path: str, target: str, *, hard: bool) -> None:
    """A link inside the archive is left out; one that leads out is refused."""
    parts = list(() if hard else PurePosixPath(path).parent.parts)
    for part in PurePosixPath(target).parts:
        if part == "/" or (part == ".." and not parts):
            raise ArchiveRefused(f"{path!r} is a link that leads out of the archive.", field=path)
        parts = parts[:-1] if part == ".." else [*parts, part]


def _without_wrapper(tree: Tree) -> Tree:
    roots = {path.split("/", 1)[0] for path in tree.files}
    alone = len(roots) == 1 and all("/" in path for path in tree.files)
    return tree.below(next(iter(roots))) if alone else tree


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel's files without its metadata, and the entry point under which Hermes finds the plugin."""

    files: tuple[SourceFile, ...]
    name: str
    entry_point: str


def as_wheel(tree: Tree) -> Wheel | None:
    """The plugin of a wheel, or None where the tree is no wheel with a `hermes_agent.plugins` entry point."""
    metadata = next((file for path, file in tree.files.items() if path.endswith(".dist-info/entry_points.txt")), None)
    if metadata is None:
        return None
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    try:
        parser.read_string(metadata.content.decode())
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ArchiveRefused(f"entry_points.txt cannot be read: {error}") from None
    points = dict(parser.items(ENTRY_POINTS)) if parser.has_section(ENTRY_POINTS) else {}
    if len(points) != 1:
        raise ArchiveRefused(f"The wheel must have exactly one entry point in [{ENTRY_POINTS}], not {len(points)}.")
    name, value = next(iter(points.items()))
    code = [file for file in tree.as_files() if ".dist-info/" not in file.path]
    return Wheel(tuple(_check_layout(code)), name.strip(), value.strip())


def _check_layout(files: Iterable[SourceFile]) -> Iterator[SourceFile]:
    for file in files:
        if ".data/" in file.path:
            raise ArchiveRefused(f"{file.path!r}: a wheel with a .data directory installs outside its package.")
        if file.path.endswith(COMPILED):
            raise ArchiveRefused(
                f"{file.path!r}: compiled code cannot be reviewed; bring a wheel of Python files only."
            )
        yield file


def body_of(tree: Tree) -> tuple[dict[str, str], tuple[SourceFile, ...]]:
    """What kind of hook a tree is, as `hooks.put` takes it."""
    if tree.get("HOOK.yaml"):
        return {"kind": "gateway"}, tree.as_files()
    if tree.get("plugin.yaml") or tree.get("plugin.yml"):
        return {"kind": "plugin"}, tree.as_files()
    if wheel := as_wheel(tree):
        return {"kind": "plugin", "entry_point": wheel.entry_point}, wheel.files
    raise ArchiveRefused("Nothing here is a hook: no HOOK.yaml, no plugin.yaml, no wheel with an entry point.")
