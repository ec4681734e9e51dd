"""The agent in this process: what is in force, how it changes, and what it answers."""

from __future__ import annotations

import collections
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import envelope, native, payloads, settings
from .asking import RemotePlane
from .client import Refused, Unreachable, segment
from .configuration import Configuration
from .engine import dispatch, verdict
from .identity import Identity, rotate
from .judging import MEMORY_ONLY, NOTHING, Judge, Judgement, refusal
from .modules import Modules
from .reporting import Reporter
from .scripts import Scripts
from .store import Store, StoreError, sha256

log = logging.getLogger(__name__)

NOT_LOADED = (
    "This agent is governed by a control plane, and what it was told to do cannot be read ({}). "
    "Nothing may run until `hermes caduceus sync` has fetched it again."
)


CLOCK_STEP = 300.0
"""How far a clock may be set back before what it said earlier counts for nothing, in seconds."""


class Agent:
    """One enrolled home in one process."""

    def __init__(self, store: Store, identity: Identity, ctx: Any = None) -> None:
        self.store, self.identity = store, identity
        self.client = identity.client()
        self.client.kept = self._kept_secret
        self.plane = RemotePlane(self.client, identity.profile, native.is_interrupted, native.surface())
        self.scripts, self.modules = Scripts(store), Modules(store, ctx)
        self.reporter = Reporter(store, lambda: self.client, identity.profile)
        self.judge: Judge | None = None
        self.broken = ""
        """Why nothing is in force although something was accepted before."""
        self.restart_reasons: list[str] = []
        self.durations: collections.deque[float] = collections.deque(maxlen=10_000)
        self.calls = self.errors = 0
        self.applied_at = time.monotonic()
        """When the bundle in force was put there."""
        self.changed = threading.Event()
        """Set when a receipt is due."""
        self.last_contact = 0.0
        self._taking = threading.RLock()

    @property
    def configuration(self) -> Configuration | None:
        """What is in force."""
        return self.judge.configuration if self.judge else None

    # What is in force, and how it gets there

    def trust(self) -> envelope.Trust:
        """What was pinned and accepted so far, as the disk has it; never less than what is in force."""
        try:
            state = self.store.state()
        except StoreError:
            state = {}
        highest = int(state.get("highest", 0))
        in_force = self.configuration.serial if self.configuration else 0
        digest = str(state.get("content_digest", "")) if highest >= in_force else ""
        return envelope.Trust(
            self.identity.ring, self.identity.team, self.identity.profile,
            max(highest, in_force), digest, str(state.get("key_id", "")),
        )  # fmt: skip

    def load(self) -> None:
        """Put the last good bundle in force; one that cannot be trusted any more closes every gate."""
        trust = self.trust()
        self.last_contact = float(self._state("last_contact", 0.0))
        self.client.skew = float(self._state("skew", 0.0))
        try:
            raw = (self.store.root / "bundle.json").read_bytes()
            self._put(_readable(envelope.verify(raw, trust)))
        except FileNotFoundError:
            self.broken = "it is missing" if trust.highest else "none was fetched yet"
        except Exception as error:
            # Whatever is wrong with it: an agent that cannot tell what it may do does nothing.
            self.broken = str(error) or type(error).__name__
        if self.broken:
            log.error("the last good bundle cannot be used: %s", self.broken)

    def _state(self, name: str, default: Any) -> Any:
        try:
            return self.store.state().get(name, default)
        except StoreError:
            return default

    def take(self, raw: bytes, etag: str = "") -> str:
        """Check what the plane sent and put it in force; the outcome for the receipt. Raises BundleRefused."""
        with self._taking:
            verified = envelope.verify(raw, self.trust())
            configuration = _readable(verified)
            self._fetch_files(verified)
            try:
                with self.store.locked():
                    self._keep(raw, verified, etag)
            except StoreError as error:
                raise envelope.BundleRefused(str(error), verified.serial) from None
            self._put(configuration)
        return "restart_needed" if self.restart_reasons else "applied"

    def _fetch_files(self, verified: envelope.Verified) -> None:
        for file in verified.content["files"]:
            digest = str(file["digest"])
            if self.store.file(digest) is not None:
                continue
            profile = segment(self.identity.profile)
            try:
                content = self.client.get(f"profiles/{profile}/files/{segment(digest)}", timeout=30.0).body
                if sha256(content) != digest:
                    raise envelope.BundleRefused(f"file {digest} has other bytes", verified.serial)
                self.store.keep_file(content)
            except (Unreachable, Refused, StoreError) as error:
                raise envelope.BundleRefused(f"file {digest} could not be fetched: {error}", verified.serial) from None

    def _keep(self, raw: bytes, verified: envelope.Verified, etag: str) -> None:
        """Pin the ring, store the bundle, raise the serial: in this order a crash leaves something that holds."""
        if verified.ring != self.identity.ring:
            self.identity = Identity({**self.identity.data, "ring": verified.ring.to_json()})
            self.store.write("agent.json", self.identity.data)
        self.store.write_bytes("bundle.json", raw)
        self.store.update_state(
            highest=verified.serial, content_digest=verified.content_digest, key_id=verified.key_id, etag=etag,
            applied_at=time.time(), refused="",
        )  # fmt: skip

    def _put(self, configuration: Configuration) -> None:
        for item in configuration.items:
            if item.kind == "shell" and item.runs_here:
                try:
                    self.scripts.put(item)
                except (OSError, StoreError) as error:
                    log.error("the script of %s cannot be laid out: %s", item.name, error)
        lingering = self.modules.put(configuration.items)
        before = self.configuration
        if before is None or before.serial != configuration.serial:
            self.forget_health()  # what the former bundle's gates did must not be held against this one
            self.applied_at = time.monotonic()
        self.judge = Judge(configuration, self._run, self.plane)
        self.broken = ""
        self.restart_reasons = [*lingering, *self._settle(before, configuration)]
        self.changed.set()

    def _settle(self, before: Configuration | None, now: Configuration) -> list[str]:
        """Bring Hermes's own files and registries in line; what cannot be is a reason to restart."""
        try:
            native.settle(now, self.client.now())
            return settings.apply(self.store, now)
        except Exception as error:
            log.exception("Hermes could not be brought in line")
            return [f"Hermes could not be brought in line: {type(error).__name__}: {error}"]

    # What it answers

    def answer(self, event: str, kwargs: Mapping[str, Any]) -> Judgement:
        """What happens with an event of Hermes, whatever goes wrong here."""
        started = time.perf_counter()
        judge = self.judge
        if judge is None:
            return refusal(event, NOT_LOADED.format(self.broken or "none was fetched yet"))
        try:
            if not judge.configuration.listens(event):
                return NOTHING
            stale = self._stale(judge.configuration, event)
            if stale:
                return refusal(event, stale)
            judgement = judge.judge(event, payloads.for_rules(event, kwargs), kwargs, self.client.now())
        except Exception as error:
            log.exception("event %s could not be judged", event)
            self.errors += 1
            if not judge.configuration.has_closed_gate(event):
                return NOTHING
            return refusal(event, f"The control plane's plugin failed ({type(error).__name__}), so this was not done.")
        self.calls += 1
        self.errors += bool(judgement.no_verdicts)
        self.durations.append(time.perf_counter() - started)
        return judgement

    def _stale(self, configuration: Configuration, event: str) -> str:
        seconds = configuration.agent("stale_after")
        if seconds is None or not configuration.has_closed_gate(event):
            return ""
        # A contact that is still to come was noted by a clock that was wrong: it proves nothing.
        if -CLOCK_STEP <= time.time() - self.last_contact <= seconds:
            return ""
        return f"The control plane was not heard of for more than {seconds} seconds, so this was not done."

    def _run(
        self, hook: dispatch.Hook, event: str, kwargs: Mapping[str, Any]
    ) -> verdict.Outcome | Sequence[verdict.Outcome]:
        judge = self.judge
        item = judge.configuration.by_name.get(hook.name) if judge else None
        if item is None or not item.runs_here:
            return verdict.NoVerdict(verdict.NoVerdictKind.REVOKED, "it is no longer part of the configuration")
        if item.kind == "gateway":
            return verdict.Returned()  # its handler is awaited on the gateway's own loop, see gateway_events
        if item.kind == "plugin":
            return self.modules.run(item, event, kwargs)
        if event in MEMORY_ONLY:
            _aside(lambda: self.scripts.run(item, event, payloads.for_rules(event, kwargs)))
            return verdict.Returned()
        outcome = self.scripts.run(item, event, kwargs)
        if isinstance(outcome, verdict.NoVerdict):
            self.changed.set()
        return outcome

    # What it says about itself

    def forget_health(self) -> None:
        """Count calls, errors and times anew."""
        self.calls = self.errors = 0
        self.durations.clear()

    def heard(self) -> None:
        """Note that the plane answered just now."""
        now = time.time()
        if now - self.last_contact > 30:
            try:
                self.store.update_state(last_contact=now, last_error="", skew=self.client.skew)
            except StoreError as error:
                log.warning("%s", error)
        self.last_contact = now

    def renew(self) -> None:
        """Renew the credential where another process has not done it meanwhile."""
        with self.store.locked("credential.lock"):
            current = Identity.load(self.store) or self.identity
            if current.data["credential"] == self.identity.data["credential"]:
                current = rotate(self.store, current, self.client)
            self.identity, self.client.secret = current, str(current.data["credential"]["secret"])

    def _kept_secret(self) -> str:
        """The secret that another process of this home got by renewing the credential."""
        try:
            current = Identity.load(self.store)
        except StoreError:
            return ""
        if current is None or current.data["agent"] != self.identity.data["agent"]:
            return ""
        self.identity = current
        return str(current.data["credential"]["secret"])


def _readable(verified: envelope.Verified) -> Configuration:
    """The bundle ready to be asked; one that is signed and still makes no sense is refused like any other."""
    try:
        return Configuration.of(verified.serial, verified.content)
    except Exception as error:
        raise envelope.BundleRefused(f"it cannot be read: {type(error).__name__}: {error}", verified.serial) from None


def _aside(work: Callable[[], Any]) -> None:
    threading.Thread(target=work, name="caduceus-aside", daemon=True).start()
