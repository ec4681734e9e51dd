"""What sync costs: an unchanged bundle, a change reaching 500 waiting agents, and the plugin inside an agent."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from django.db import transaction

from controlplane import scope
from controlplane.bench.figure import AT_LEAST, AT_MOST, Figure
from controlplane.bench.turns import Measure, by_turns
from controlplane.celery import app as celery
from controlplane.embedded.programs import worker_command
from gateway_app.bench import plugin
from gateway_app.models import Rollout
from gateway_app.services import bundles, enrolments
from hooks_app.bench import generator, server
from hooks_app.bench.webhooks import worker
from hooks_app.services import changes, hooks, profile_hooks

AGENTS = 500
CONNECTIONS = 16
ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Caller:
    """An agent's credential and installation."""

    secret: str
    instance: str


def figures(full: bool = False) -> Iterator[Figure]:
    """The figures of sync, and what its result costs a tool call."""
    site = server.build()
    with scope.team(site.team.pk), transaction.atomic():
        bundles.build(profile=site.profile)
    callers = _enrol(site, AGENTS)
    with server.serving() as port:
        yield _unchanged(site, port, callers[0], seconds=3.0 if full else 1.5)
        yield _change(site, port, callers)
        yield plugin.added_to_a_tool_call(site, port)


def _enrol(site: server.Site, count: int) -> list[Caller]:
    with scope.team(site.team.pk), transaction.atomic():
        issued = enrolments.create(profile=site.profile, actor=site.author, name="bench", uses=count)
    made = []
    for number in range(count):
        instance = uuid4()
        enrolled = enrolments.enrol(secret=issued.secret, name=f"agent-{number}", instance=instance)
        made.append(Caller(enrolled.credential.secret, str(instance)))
    return made


def _etag(site: server.Site) -> str:
    with scope.team(site.team.pk), transaction.atomic():
        rollout = Rollout.objects.select_related("stable__version").get(profile=site.profile)
        return rollout.stable.etag


def _request(site: server.Site, caller: Caller, *, wait: int, etag: str) -> bytes:
    path = f"/api/v1/profiles/{site.profile.name}/bundle" + (f"?wait={wait}" if wait else "")
    plain = generator.encoded(path, token=caller.secret)
    more = f"Caduceus-Instance: {caller.instance}\r\nIf-None-Match: {etag}\r\n\r\n"
    return plain.removesuffix(b"\r\n") + more.encode()


def _unchanged(site: server.Site, port: int, caller: Caller, *, seconds: float) -> Figure:
    """Answers per second of both, by turns."""
    ours = _request(site, caller, wait=0, etag=_etag(site))
    empty = generator.encoded("/bench/empty", token=caller.secret)

    def rate(request: bytes, status: bytes) -> Measure:
        _answers(port, request, status, seconds)  # warms up
        return lambda: _answers(port, request, status, seconds) / seconds

    rates = by_turns(rate(ours, b"304"), rate(empty, b"200"), ROUNDS)
    return Figure(
        "unchanged sync (304), 16 connections", *rates, 0.8, AT_LEAST, "/s",
        "against an empty view behind the same middleware",
    )  # fmt: skip


def _answers(port: int, request: bytes, status: bytes, seconds: float) -> int:
    """How many answers of this status a number of connections get in this time."""
    selector, count = selectors.DefaultSelector(), 0
    for _ in range(CONNECTIONS):
        sock = _connected(port)
        sock.sendall(request)
        selector.register(sock, selectors.EVENT_READ, bytearray())
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        for key, _ in selector.select(timeout=1):
            key.data.extend(key.fileobj.recv(65536))  # type: ignore[union-attr]
            if not _complete(key.data):
                continue
            if key.data[9:12] != status:
                raise server.Refused(f"expected {status!r}, got {bytes(key.data[:200])!r}")
            key.data.clear()
            count += 1
            key.fileobj.sendall(request)  # type: ignore[union-attr]
    for key in list(selector.get_map().values()):
        key.fileobj.close()  # type: ignore[union-attr]
    return count


def _complete(received: bytearray) -> bool:
    """Whether an answer has arrived whole; a 304 has no body."""
    head, separator, body = received.partition(b"\r\n\r\n")
    if not separator or head[9:12] == b"304":
        return bool(separator)
    lengths = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return len(body) >= lengths[0]


def _connected(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _change(site: server.Site, port: int, callers: list[Caller]) -> Figure:
    """From the reviewer's consent to the answer that carries the new bundle."""
    etag, selector = _etag(site), selectors.DefaultSelector()
    for caller in callers:
        sock = _connected(port)
        sock.sendall(_request(site, caller, wait=55, etag=etag))
        selector.register(sock, selectors.EVENT_READ)
    early = selector.select(timeout=5)  # by then everybody waits
    if early:
        raise server.Refused(early[0][0].fileobj.recv(300))  # type: ignore[union-attr]
    with _worker():
        decide = _proposal(site)
        began = time.perf_counter()
        decide()
        times = sorted(_answered(selector, began, len(callers)))
    reached = times[int(len(times) * 0.95) - 1]
    return Figure(
        f"change to 95 % of {len(callers)} waiting agents", reached, 1.0, 2.0, AT_MOST, "s",
        "from the reviewer's consent through a worker to the answer; the reference is one second",
    )  # fmt: skip


@contextmanager
def _worker() -> Iterator[None]:
    """A worker of the fleet's queue, as `up` starts it, ready to work."""
    with worker(worker_command("bench", "gateway", "threads", 4), {}):
        for _ in range(60):
            if celery.control.ping(timeout=0.5):
                break
        else:
            raise TimeoutError("the worker did not start")
        yield


def _proposal(site: server.Site) -> Callable[[], None]:
    """A rule in the profile that lacks nothing but the reviewer's consent, which the result gives."""
    rule = {"events": ["pre_tool_call"], "when": {"tool": "browser"}, "then": {"block": "No browsing."}}
    with scope.team(site.team.pk), transaction.atomic():
        put = hooks.put(team=site.team, actor=site.author, name="no-browser", body={"kind": "rule", "rule": rule})
        change = changes.submit(change=put.change, actor=site.author)
        places = [{"hook": place.hook} for place in profile_hooks.current_places(site.profile)]
        arranged = profile_hooks.arrange(
            profile=site.profile, actor=site.author, places=[*places, {"hook": "no-browser"}]
        )
        if arranged.change is not None:
            arrangement = changes.submit(change=arranged.change, actor=site.author)
            changes.decide(change=arrangement, actor=site.approver, approve=True, digest=arrangement.digest)

    def consent() -> None:
        with scope.team(site.team.pk), transaction.atomic():
            changes.decide(change=change, actor=site.approver, approve=True, digest=change.digest)

    return consent


def _answered(selector: selectors.BaseSelector, began: float, count: int) -> Iterator[float]:
    while count:
        ready = selector.select(timeout=30)
        if not ready:
            raise server.Refused(f"{count} agents were not answered")
        for key, _ in ready:
            sock: socket.socket = key.fileobj  # type: ignore[assignment]
            head = sock.recv(65536)
            if head[9:12] != b"200":
                raise server.Refused(f"expected 200, got {head[:200]!r}")
            selector.unregister(sock)
            sock.close()
            count -= 1
            yield time.perf_counter() - began
