"""What waiting people cost everybody else, and how fast an answer reaches whoever waits."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from statistics import median

from controlplane.bench.figure import AT_MOST, Figure
from hooks_app.bench import generator
from hooks_app.bench.server import Load, Site, build, load, question, serving

WAITERS = 500
ROUNDS = 3
CLICKS = 40


def figures(full: bool = False) -> Iterator[Figure]:
    """Decisions beside 500 waiting clients; from a click to the released waiter."""
    site = build()
    seconds = 5.0 if full else 2.0
    with serving() as port:
        ask = generator.encoded("/api/v1/decisions", token=site.token, body=question(site))
        load(port, ask, connections=4, seconds=1)
        alone: list[float] = []
        beside: list[float] = []
        for number in range(ROUNDS):
            alone += load(port, ask, connections=1, seconds=seconds).latencies
            with _Waiters(port, site, number):
                beside += load(port, ask, connections=1, seconds=seconds).latencies
        name = f"decision beside {WAITERS} waiting clients, p50"
        yield Figure(name, median(beside), median(alone), 1.5, AT_MOST)
        released = Load([_click(port, site, n) for n in range(CLICKS * (3 if full else 1))], 1)
        yield Figure("click to released waiter, p95", released.percentile(95), 0.25, 1.0, AT_MOST)


def _post(port: int, token: str, path: str, body: object) -> dict[str, object]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST", f"/api/v1/{path}", json.dumps(body), headers)
    response = connection.getresponse()
    answer: dict[str, object] = json.load(response)
    connection.close()
    if response.status >= 300:
        raise RuntimeError(f"{path}: {answer}")
    return answer


def _request(port: int, site: Site, number: int) -> str:
    made = _post(
        port,
        site.token,
        "approvals",
        {
            "id": f"bench-{time.time_ns()}-{number}",
            "profile": site.profile.name,
            "command": f"rm -rf build-{number}",
            "description": "recursive delete",
            "pattern_keys": ["recursive delete"],
            "seconds": 600,
        },
    )
    return str(made["id"])


class _Waiters:
    """Clients that wait for one request, each on a connection of its own, until it is denied."""

    def __init__(self, port: int, site: Site, number: int) -> None:
        self.port, self.site = port, site
        self.id = _request(port, site, number)
        self.sockets: list[socket.socket] = []

    def __enter__(self) -> None:
        request = generator.encoded(f"/api/v1/approvals/{self.id}?wait=60", token=self.site.token)
        for number in range(WAITERS):
            if number % 25 == 0:
                time.sleep(0.2)
            waiter = socket.create_connection(("127.0.0.1", self.port), timeout=30)
            waiter.sendall(request)
            self.sockets.append(waiter)
        time.sleep(2)

    def __exit__(self, *_: object) -> None:
        """Answer all of them, so that nobody waits any more; each must be told."""
        _post(self.port, self.site.approver_token, f"approvals/{self.id}/decide", {"choice": "deny"})
        for waiter in self.sockets:
            response = http.client.HTTPResponse(waiter)
            response.begin()
            told = json.load(response)
            waiter.close()
            if told["state"] != "denied":
                raise RuntimeError(told)


def _click(port: int, site: Site, number: int) -> float:
    """Seconds from sending the answer until the waiter has it."""
    id = _request(port, site, number)
    got: list[float] = []

    def wait() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", f"/api/v1/approvals/{id}?wait=30", headers={"Authorization": f"Bearer {site.token}"})
        state = json.load(connection.getresponse())["state"]
        got.append(time.perf_counter())
        if state != "approved":
            raise RuntimeError(state)

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.3)
    started = time.perf_counter()
    _post(port, site.approver_token, f"approvals/{id}/decide", {"choice": "once"})
    waiter.join()
    return got[0] - started
