"""`hermes caduceus …`: enrol, look, repair, leave."""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

from . import gateway_files, identity, native, receipts, syncing
from .agent import Agent
from .client import Client, Refused, Unreachable, segment
from .identity import EnrolmentError, Identity
from .store import Store, StoreError, hermes_home
from .version import KNOWN_HERMES, VERSION, hermes_version

IMPORTED = ("config.yaml", "shell-hooks-allowlist.json", "hooks", "plugins", "agent-hooks")
MOST_IMPORTED = 8 * 2**20
LEFT_OUT = frozenset({"caduceus", "__pycache__", ".git", "node_modules"})


def set_up(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    actions = parser.add_subparsers(dest="caduceus_action")
    enrol = actions.add_parser("enroll", help="put this agent under a control plane")
    enrol.add_argument("url")
    enrol.add_argument("token")
    enrol.add_argument("--name", default="", help="what people call this agent; the host's name by default")
    status = actions.add_parser("status", help="what is in force, and since when")
    status.add_argument("--json", action="store_true")
    actions.add_parser("sync", help="fetch what is meant for this agent now")
    imported = actions.add_parser("import", help="hand this home's hooks in as drafts for review")
    imported.add_argument("token", help="a person's API token; the agent itself may not propose hooks")
    actions.add_parser("doctor", help="look for everything that is not as it should be")
    leave = actions.add_parser("uninstall", help="leave the control plane and take its files away")
    leave.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> None:
    """Do what was asked; the exit code says whether all is well."""
    action = getattr(args, "caduceus_action", None)
    store = Store(hermes_home())
    try:
        if action == "enroll":
            code = enroll(store, args.url, args.token, args.name)
        elif action is None:
            print("hermes caduceus enroll URL TOKEN | status | sync | import TOKEN | doctor | uninstall")
            code = 2
        else:
            code = {"status": status, "sync": sync, "import": import_home, "doctor": doctor, "uninstall": uninstall}[
                action
            ](store, args)
    except (EnrolmentError, StoreError, Refused) as error:
        print(f"✗ {error}", file=sys.stderr)
        code = 1
    except Unreachable as error:
        print(f"✗ The control plane cannot be reached: {error}", file=sys.stderr)
        code = 1
    if code:
        sys.exit(code)


def enroll(store: Store, url: str, token: str, name: str) -> int:
    """Enrol this home, fetch its bundle, and say what is in force."""
    enrolled = identity.enrol(store, url, token, name)
    gateway_files.put(store)
    print(f"✓ enrolled as {enrolled.data['agent']['name']} in {enrolled.team}/{enrolled.profile}")
    agent = Agent(store, enrolled)
    try:
        _say(syncing.fetch(agent), agent)
    except (Refused, Unreachable) as error:
        print(f"! nothing fetched yet: {error}")
    print("Restart Hermes processes that run already.")
    return 0


def _agent(store: Store) -> Agent:
    found = Identity.load(store)
    if found is None:
        raise EnrolmentError("This home is not enrolled: hermes caduceus enroll URL TOKEN")
    agent = Agent(store, found)
    agent.load()
    return agent


def _say(outcome: str, agent: Agent) -> None:
    serial = agent.configuration.serial if agent.configuration else 0
    hooks = len(agent.configuration.items) if agent.configuration else 0
    if outcome == "refused":
        print(f"✗ the bundle was refused: {agent._state('refused', '')}; serial {serial} stays in force")
    else:
        print(f"✓ serial {serial} in force, {hooks} hooks ({outcome.replace('_', ' ')})")
    for reason in agent.restart_reasons:
        print(f"! restart needed: {reason}")


def status(store: Store, args: argparse.Namespace) -> int:
    """Say who this agent is and what is in force."""
    agent = _agent(store)
    facts = _facts(agent)
    if getattr(args, "json", False):
        print(json.dumps(facts, indent=2))
        return 0
    for name, value in facts.items():
        if name != "hooks" and value != "":
            print(f"{name.replace('_', ' ')}: {value}")
    for hook in facts["hooks"]:
        print(f"  {hook['name']} v{hook['version']} {hook['kind']} {hook['digest'][:19]}… {hook['state']}")
    return 0


def _facts(agent: Agent) -> dict[str, Any]:
    configuration = agent.configuration
    heard = agent.last_contact
    hooks = [
        {
            "name": item.name, "kind": item.kind, "version": item.place.hook.version, "digest": item.place.hook.digest,
            "state": receipts.problem(agent, item, None) or ("observed" if item.place.observe else "in force"),
        }
        for item in (configuration.items if configuration else ())
    ]  # fmt: skip
    return {
        "plane": agent.identity.url,
        "agent": agent.identity.data["agent"]["name"],
        "team": agent.identity.team,
        "profile": agent.identity.profile,
        "serial": configuration.serial if configuration else 0,
        "broken": agent.broken,
        "last_contact": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(heard)) if heard else "never",
        "last_error": agent._state("last_error", ""),
        "refused": agent._state("refused", ""),
        "receipt_refused": agent._state("receipt_refused", ""),
        "disk": agent.store.problem() or "takes what it is given",
        "credential_expires": agent.identity.data["credential"].get("expires_at", ""),
        "events_waiting": sum(path.read_bytes().count(b"\n") + 1 for path in agent.reporter.spooled()),
        "hooks": hooks,
    }


def sync(store: Store, _: argparse.Namespace) -> int:
    """Fetch now, lay the files out anew, and send what waits."""
    agent = _agent(store)
    outcome = syncing.fetch(agent)
    _say(outcome, agent)
    agent.reporter.flush()
    return 1 if outcome == "refused" or agent.broken else 0


def doctor(store: Store, _: argparse.Namespace) -> int:
    """Look at everything and say what is wrong."""
    agent = _agent(store)
    problems = [f"{one['kind']}: {one['what']} {one['detail']}".strip() for one in receipts.drift(agent)]
    try:
        agent.client.get("agent", timeout=10.0)
        print(f"✓ {agent.identity.url} answers")
    except (Unreachable, Refused) as error:
        problems.append(f"the control plane: {error}")
    if agent.configuration is None:
        problems.append(f"no bundle is in force: {agent.broken or 'none was fetched'}")
    else:
        print(f"✓ serial {agent.configuration.serial}: signature and digests hold")
    if hermes_version() not in KNOWN_HERMES:
        problems.append(f"Hermes {hermes_version()} is not a version that plugin {VERSION} was tried with")
    if not gateway_files.intact(store):
        problems.append("the gateway's hook directory is not in place")
    problems += [f"the disk {why}" for why in (agent.store.problem(),) if why]
    problems += [f"the last receipt: {why}" for why in (agent._state("receipt_refused", ""),) if why]
    problems += [f"variable {name} is not set" for name in receipts.missing_environment(agent.configuration)]
    for problem in problems:
        print(f"✗ {problem}")
    print("all is well" if not problems else f"{len(problems)} problem(s)")
    return 1 if problems else 0


def import_home(store: Store, args: argparse.Namespace) -> int:
    """Send this home's hooks to the plane, where they become drafts."""
    agent = _agent(store)
    client = Client(agent.identity.url, args.token, str(agent.identity.data["instance"]))
    path = f"imports?profile={segment(agent.identity.profile)}"
    answer = client.send("POST", path, pack(store.home), timeout=60.0, content_type="application/octet-stream").json()
    print(json.dumps(answer, indent=2))
    return 0


def pack(home: Path) -> bytes:
    """The hooks of a home as an archive; never its `.env`, its sessions or this plugin's own files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in IMPORTED:
            if (home / name).exists():
                archive.add(home / name, arcname=name, filter=_kept)
    if buffer.tell() > MOST_IMPORTED:
        raise EnrolmentError("The hooks of this home have more than 8 MiB: hand them in one by one.")
    return buffer.getvalue()


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    wanted = (entry.isfile() or entry.isdir()) and not LEFT_OUT & set(Path(entry.name).parts)
    return entry if wanted else None


def uninstall(store: Store, args: argparse.Namespace) -> int:
    """Leave the plane: take away what was put here, and switch the plugin off."""
    if not args.yes and input("Leave the control plane and remove its files? [y/N] ").strip().lower() not in (
        "y",
        "yes",
    ):
        return 1
    _withdraw_consent(store)
    gateway_files.remove(store)
    shutil.rmtree(store.root, ignore_errors=True)
    try:
        from hermes_cli import plugins_cmd

        plugins_cmd._save_enabled_set(plugins_cmd._get_enabled_set() - {"caduceus"})
    except ImportError:
        print("! take caduceus out of plugins.enabled in config.yaml yourself")
    print(f"✓ left; {_remove_plugin(store)}. The plane keeps what it was told: revoke the agent there.")
    return 0


def _withdraw_consent(store: Store) -> None:
    """Take back what the plane consented to: without it nobody looks after those hooks."""
    try:
        agent = _agent(store)
    except EnrolmentError:
        return
    except Exception as error:
        print(f"! the plane's consent in shell-hooks-allowlist.json could not be told from yours: {error}")
        return
    if agent.configuration is not None:
        native.withdraw(agent.configuration, agent.client.now())


def _remove_plugin(store: Store) -> str:
    """Take the plugin's directory away where it lies in this home, and say so."""
    directory = Path(__file__).parent
    if directory.parent != store.home / "plugins":
        return f"the plugin itself is in {directory}, where `pip uninstall caduceus-hermes` takes it away"
    shutil.rmtree(directory, ignore_errors=True)
    return "the plugin is gone"
