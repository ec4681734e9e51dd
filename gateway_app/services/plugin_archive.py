"""The Hermes plugin as one archive: its own files, and the plane's engine with imports that work anywhere."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import shlex
import tarfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from controlplane.errors import NotFound

DIRECTORY = "caduceus"
LIBRARY = ("__init__.py", "canonical.py", "signing.py")
LEFT_OUT = {"__pycache__", "engine", "lib"}
EPOCH = 315532800  # 1980, which every archive format can say

INSTALL = """\
#!/bin/sh
# Installs the Caduceus plugin into a Hermes home. Holds no secret; enrol afterwards with a token.
set -eu
plane={url}
digest={digest}

main() {{
    find_home
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    curl -fsS "$plane/api/v1/plugin" -o "$work/caduceus.tar.gz"
    check_digest
    tar -xzf "$work/caduceus.tar.gz" -C "$work"
    mkdir -p "$home/plugins"
    rm -rf "$home/plugins/caduceus.old"
    [ ! -d "$home/plugins/caduceus" ] || mv "$home/plugins/caduceus" "$home/plugins/caduceus.old"
    mv "$work/caduceus" "$home/plugins/caduceus"
    rm -rf "$home/plugins/caduceus.old"
    echo "Installed in $home/plugins/caduceus."
    enable
    echo "Now: hermes caduceus enroll $plane TOKEN"
}}

# Where Hermes itself looks: a profile that was chosen with `hermes profile use` has a home of its own.
find_home() {{
    home="${{HERMES_HOME:-}}"
    if [ -z "$home" ] && command -v hermes >/dev/null 2>&1; then
        home=$(hermes config path 2>/dev/null | sed -n 's,/config.yaml$,,p' | tail -n 1) || home=""
    fi
    home="${{home:-$HOME/.hermes}}"
}}

check_digest() {{
    if command -v sha256sum >/dev/null 2>&1; then
        found=$(sha256sum "$work/caduceus.tar.gz" | cut -d' ' -f1)
    else
        found=$(shasum -a 256 "$work/caduceus.tar.gz" | cut -d' ' -f1)
    fi
    if [ "sha256:$found" != "$digest" ]; then
        echo "The archive is not the one this script was made for: run it again, or ask the plane's operator." >&2
        exit 1
    fi
}}

enable() {{
    if ! command -v hermes >/dev/null 2>&1; then
        echo "Hermes is not on your PATH. Once it is: hermes plugins enable caduceus"
    elif ! hermes plugins enable caduceus >"$work/said" 2>&1; then
        cat "$work/said" >&2
        echo "Hermes did not enable it. When that is mended: hermes plugins enable caduceus"
    fi
}}

main  # last, so that a script that was cut off on its way does nothing
"""


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive's bytes and their digest."""

    content: bytes
    digest: str


@lru_cache(maxsize=1)
def archive() -> Archive:
    """The archive; the same files give the same bytes."""
    content = pack(files())
    return Archive(content, "sha256:" + hashlib.sha256(content).hexdigest())


def files(root: Path | None = None) -> dict[str, bytes]:
    """Everything in the plugin's directory, by path."""
    root = root or Path(settings.BASE_DIR)
    plugin = root / "hermes_plugin"
    if not (plugin / "plugin.yaml").exists():
        raise NotFound("This plane was installed without the Hermes plugin.")
    found = {
        path.relative_to(plugin).as_posix(): path.read_bytes()
        for path in plugin.rglob("*")
        if path.is_file() and not LEFT_OUT & set(path.relative_to(plugin).parts) and path.suffix != ".pyc"
    }
    for path in (root / "hooks_app" / "engine").glob("*.py"):
        found[f"engine/{path.name}"] = relocated(path.read_text(encoding="utf-8"), "hooks_app.engine").encode()
    for name in LIBRARY:
        text = (root / "controlplane" / "lib" / name).read_text(encoding="utf-8")
        found[f"lib/{name}"] = relocated(text, "controlplane.lib").encode()
    return found


def relocated(text: str, package: str) -> str:
    """A module of a flat package whose imports of it are relative: it works under any name."""
    name = re.escape(package)
    text = re.sub(rf"^(\s*)from {name} import ", r"\1from . import ", text, flags=re.MULTILINE)
    return re.sub(rf"^(\s*)from {name}\.(\w+) import ", r"\1from .\2 import ", text, flags=re.MULTILINE)


def pack(members: dict[str, bytes]) -> bytes:
    """A tar.gz that depends on names and bytes only."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(members):
            info = tarfile.TarInfo(f"{DIRECTORY}/{path}")
            info.size, info.mtime, info.mode = len(members[path]), EPOCH, 0o644
            tar.addfile(info, io.BytesIO(members[path]))
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=EPOCH) as file:
        file.write(raw.getvalue())
    return packed.getvalue()


def write(directory: Path) -> Path:
    """Write the plugin's directory below this one, as unpacking the archive would."""
    target = directory / DIRECTORY
    for path, content in files().items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return target


def install_script(url: str) -> str:
    """The script that fetches this very archive and puts it into a Hermes home."""
    return INSTALL.format(url=shlex.quote(url), digest=archive().digest)
