"""What happens when Hermes loads the plugin: the last good bundle in force, callbacks in place, then the plane."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from . import commands, gateway_events, gateway_files, plugin_events, process, syncing
from .agent import Agent
from .client import Refused, Unreachable
from .identity import Identity
from .store import Store, StoreError, hermes_home

log = logging.getLogger(__name__)

FIRST_SECONDS = 3.0
"""How long a start of Hermes waits for a newer bundle before it goes on with the last good one."""
__all__ = ["gateway_events", "register"]


def register(ctx: Any) -> None:
    """Put this process under the plane, where its home is enrolled."""
    ctx.register_cli_command(
        "caduceus", "this agent's control plane", commands.set_up, commands.run, "Enrol, look, repair, leave."
    )
    store = Store(hermes_home())
    identity = Identity.load(store)
    if identity is None or _is_own_command():
        return
    agent = Agent(store, identity, ctx)
    agent.load()
    process.agent = agent
    plugin_events.register(ctx, agent)
    _settle(agent)
    agent.reporter.start()
    syncing.Sync(agent).start()
    _at_exit(agent.reporter.at_exit)


def _at_exit(keep: Callable[[], None]) -> None:
    """Have the last events kept however Hermes ends: its gateway and `hermes -z` leave by `os._exit`."""
    atexit.register(keep)
    process_id, leave = os.getpid(), os._exit

    def left(status: int) -> NoReturn:
        if os.getpid() == process_id:  # a forked child leaves this way too, and these events are not its own
            keep()
        leave(status)

    os._exit = left


def _settle(agent: Agent) -> None:
    """Lay the gateway's files out and look once for something newer."""
    try:
        gateway_files.put(agent.store)
    except OSError as error:
        log.error("the gateway's hook directory cannot be written: %s", error)
    try:
        syncing.fetch(agent, timeout=FIRST_SECONDS)
    except (Unreachable, Refused, StoreError) as error:
        log.warning("the control plane was not asked at start: %s", error)
    except Exception:
        log.exception("the control plane could not be asked at start")


def _is_own_command() -> bool:
    return sys.argv[1:2] == ["caduceus"]
