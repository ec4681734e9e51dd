"""The one gateway hook that Hermes loads for us: a directory that hands every event to the plugin."""

from __future__ import annotations

from pathlib import Path

from .store import Store

EVENTS = ("gateway:startup", "session:*", "agent:*", "command:*")
MANIFEST = "name: caduceus\ndescription: Hands the gateway's events to the Caduceus plugin.\nevents:\n" + "".join(
    f'  - "{event}"\n' for event in EVENTS
)
HANDLER = '''"""Hands the gateway's events to the Caduceus plugin; written by it, do not edit."""

import sys


async def handle(event_type, context):
    """Answer with what the plugin says; a command is denied where the plugin should be and is not."""
    module = sys.modules.get("@MODULE@")
    if module is None:
        if event_type.startswith("command:"):
            return {"decision": "deny", "message": "The control plane's plugin is not loaded."}
        return None
    return await module.handle(event_type, context)
'''
MODULE = __name__.rsplit(".", 1)[0] + ".gateway_events"


def contents() -> dict[str, str]:
    """The files of the directory."""
    return {"HOOK.yaml": MANIFEST, "handler.py": HANDLER.replace("@MODULE@", MODULE)}


def directory(store: Store) -> Path:
    """Where Hermes looks for it."""
    return store.home / "hooks" / "caduceus"


def put(store: Store) -> None:
    """Lay the directory out, where it is not as it should be."""
    for name, text in contents().items():
        path = directory(store) / name
        if not path.is_file() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def intact(store: Store) -> bool:
    """Whether the directory is as it should be."""
    try:
        return all((directory(store) / name).read_text() == text for name, text in contents().items())
    except (OSError, UnicodeDecodeError):
        return False


def remove(store: Store) -> None:
    """Take the directory away."""
    for name in contents():
        (directory(store) / name).unlink(missing_ok=True)
    if directory(store).is_dir() and not any(directory(store).iterdir()):
        directory(store).rmdir()
