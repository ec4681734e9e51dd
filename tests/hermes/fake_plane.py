"""A small plane that keeps docs/bundle.md: real signatures, real serials, answers that a test chooses."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from controlplane.lib import canonical
from controlplane.lib.signing import KeyRing, SigningKey
from hermes_plugin.store import sha256
from hooks_app.engine.rule import dump
from hooks_app.engine.rule_parsing import parse_rule

TEAM, PROFILE = "acme", "deploy-bot"


def rule(name: str, *, layer: str = "profile", mode: str = "enforce", **body: Any) -> dict[str, Any]:
    """A rule hook as a bundle has it."""
    parsed = dump(parse_rule({"name": name, "events": ["pre_tool_call"], **body}))
    manifest = {"format": 1, "kind": "rule", "events": parsed["events"], "fail_mode": parsed["fail_mode"],
                "files": [], "rule": parsed}  # fmt: skip
    return hook(name, "rule", manifest, layer=layer, mode=mode)


def hook(
    name: str, kind: str, manifest: dict[str, Any], *, layer: str = "profile", mode: str = "enforce"
) -> dict[str, Any]:
    """Any hook as a bundle has it."""
    return {
        "name": name, "kind": kind, "layer": layer, "mode": mode, "state": "active", "version": 1, "gate": True,
        "digest": canonical.digest(manifest), "approved_at": "2026-01-30T08:15:00.000000Z", "manifest": manifest,
    }  # fmt: skip


def content(*hooks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The content of a bundle."""
    files = {f["digest"]: f["size"] for h in hooks if h["state"] == "active" for f in h["manifest"].get("files", ())}
    return {
        "hooks": list(hooks),
        "files": [{"digest": digest, "size": size} for digest, size in files.items()],
        "allowlists": {"shell": [], "senders": [], "commands": []},
        **more,
    }


@dataclass
class FakePlane:
    """The plane's address, what it gives out, and what it was told."""

    key: SigningKey = field(default_factory=SigningKey.generate)
    serial: int = 0
    envelope: bytes = b""
    files: dict[str, bytes] = field(default_factory=dict)
    decide: Callable[[dict[str, Any]], dict[str, Any]] = lambda asked: {"outcome": "allow"}
    decisions: list[dict[str, Any]] = field(default_factory=list)
    approvals: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    repeated: int = 0
    receipts: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0
    hanging: bool = False
    """Take connections and requests, and answer none."""
    over: set[str] = field(default_factory=set)
    """Secrets that are refused by now."""
    accepted: str = ""
    """The enrolment token that is taken, where it is not the plane's own."""

    def __post_init__(self) -> None:
        self.ring = KeyRing(self.key.public)
        self.changed = threading.Condition()
        self.server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """An enrolment token that names the key."""
        return f"cae_{'x' * 43}.{self.ring.first.key_id}"

    def start(self) -> None:
        """Listen; on the same port after a stop."""
        self.server = _Server(("127.0.0.1", self.port), _handler(self))
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        """Be gone: no listener, and every connection broken."""
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server.break_connections()
            self.server = None

    def publish(self, value: dict[str, Any], *, serial: int | None = None) -> int:
        """Sign a content under the next serial and wake whoever waits."""
        with self.changed:
            self.serial = serial if serial is not None else self.serial + 1
            self.envelope = self.sign(value, self.serial)
            self.changed.notify_all()
        return self.serial

    def sign(self, value: dict[str, Any], serial: int, key: SigningKey | None = None) -> bytes:
        """An envelope around a content."""
        payload = {
            "format": 1, "team": TEAM, "profile": PROFILE, "serial": serial, "content": value,
            "issued_at": now(), "content_digest": canonical.digest(value),
        }  # fmt: skip
        text = canonical.dumps(payload)
        signer = key or self.key
        return json.dumps({
            "payload": text.decode(), "key_id": signer.key_id, "signature": signer.sign(b"caduceus bundle 1\n" + text),
            "ring": self.ring.to_json(),
        }).encode()  # fmt: skip

    def script(self, name: str, text: str, **more: Any) -> dict[str, Any]:
        """A shell hook with its script."""
        data = text.encode()
        self.files[sha256(data)] = data
        manifest = {
            "format": 1, "kind": "shell", "events": ["pre_tool_call"], "matcher": "terminal",
            "command": f"~/.hermes/agent-hooks/{name}.sh", "argv": [f"~/.hermes/agent-hooks/{name}.sh"], "timeout": 5,
            "fail_mode": "closed", "environment": [], "network": False,
            "files": [{"path": f"{name}.sh", "mode": "0755", "digest": sha256(data), "size": len(data)}], **more,
        }  # fmt: skip
        return hook(name, "shell", manifest)

    def ask_a_person(self, asked: dict[str, Any], seconds: float = 60) -> dict[str, Any]:
        """Answer a question with `wait`, and open its request."""
        deadline = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        row = {
            "id": str(uuid.uuid4()),
            "state": "pending",
            "deadline": deadline,
            "choice": "",
            "note": "",
            "decided_by": "",
        }
        self.approvals[row["id"]] = row
        return {"outcome": "wait", "approval": row["id"], "hook": "ask", "message": "A person decides."}

    def answer(self, state: str, *, command: str = "", **more: Any) -> None:
        """Decide the newest request, or the newest about a command."""
        with self.changed:
            rows = [row for row in self.approvals.values() if row.get("command", "").startswith(command)]
            rows[-1].update(state=state, hermes_choice=more.pop("choice", ""), **more)
            self.changed.notify_all()

    def wait_for(self, condition: Callable[[], Any], seconds: float = 30) -> Any:
        """What a condition finds, as soon as it finds something."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            found = condition()
            if found:
                return found
            time.sleep(0.03)
        raise AssertionError("the plane did not see it in time")


def now() -> str:
    """The time as bundles write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 50

    def __init__(self, *args: Any) -> None:
        self.connections: set[Any] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def break_connections(self) -> None:
        for connection in self.connections:
            try:
                connection.shutdown(2)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A broken connection is what some tests want."""


def _handler(plane: FakePlane) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

        def reply(self, status: int, value: Any = None, **headers: str) -> None:
            body = value if isinstance(value, bytes) else json.dumps(value).encode() if value is not None else b""
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def refuse(self, status: int, code: str, **details: Any) -> None:
            error = {"code": code, "message": code, "field": "", "request_id": "", "details": details}
            self.reply(status, {"error": error})

        def is_answered(self) -> bool:
            while plane.hanging and plane.server is not None:
                time.sleep(0.1)
            if self.headers.get("Authorization", "").removeprefix("Bearer ") in plane.over:
                self.refuse(401, "not_authenticated")
                return False
            return True

        def do_GET(self) -> None:
            if not self.is_answered():
                return
            parts = urlsplit(self.path)
            path = parts.path.removeprefix("/api/v1/")
            wait = float(parse_qs(parts.query).get("wait", ["0"])[0])
            if path == f"profiles/{PROFILE}/bundle":
                self.bundle(wait)
            elif path.startswith(f"profiles/{PROFILE}/files/"):
                data = plane.files.get(unquote(path.rsplit("/", 1)[1]))
                self.reply(200, data) if data is not None else self.refuse(404, "not_found")
            elif path.startswith("approvals/"):
                self.approval(path.removeprefix("approvals/"), wait)
            elif path == "agent":
                self.reply(200, {"agent": {}, "now": now()})
            else:
                self.refuse(404, "not_found")

        def bundle(self, wait: float) -> None:
            ends = time.monotonic() + wait
            with plane.changed:
                while True:
                    etag = f'"{plane.serial}.{sha256(plane.envelope)[7:19]}"'
                    if not plane.envelope:
                        return self.refuse(404, "not_found")
                    if self.headers.get("If-None-Match") != etag:
                        return self.reply(200, plane.envelope, ETag=etag)
                    left = ends - time.monotonic()
                    if left <= 0 or plane.server is None:
                        return self.reply(304, ETag=etag)
                    plane.changed.wait(min(left, 0.5))

        def approval(self, id: str, wait: float) -> None:
            ends = time.monotonic() + wait
            with plane.changed:
                row = plane.approvals.get(id)
                if row is None:
                    self.refuse(404, "not_found")
                    return
                while row["state"] == "pending" and time.monotonic() < ends and plane.server is not None:
                    if row["deadline"] < now():
                        row.update(state="expired", hermes_choice="timeout")
                    plane.changed.wait(0.2)
                self.reply(200, row)

        def do_POST(self) -> None:
            path = urlsplit(self.path).path.removeprefix("/api/v1/")
            given = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            if not self.is_answered():
                return
            if path == "enroll":
                known = given["token"] == (plane.accepted or plane.token)
                self.reply(201, _enrolled(plane)) if known else self.refuse(401, "enrolment_refused")
            elif path == "decisions":
                plane.decisions.append(given)
                self.reply(200, {"id": given["id"], "decision": str(uuid.uuid4()), **plane.decide(given)})
            elif path == "events":
                for one in given["events"]:
                    plane.repeated += one["id"] in plane.events
                    plane.events[one["id"]] = one
                self.reply(202, {"accepted": len(given["events"]), "repeated": 0})
            elif path == f"profiles/{PROFILE}/receipts":
                taken = {receipt["counter"] for receipt in plane.receipts}
                if given["counter"] in taken:
                    self.refuse(409, "replayed", last=max(taken))
                    return
                plane.receipts.append(given)
                self.reply(201, {"desired_serial": plane.serial, "now": now(), "rotate": False})
            elif path == "approvals":
                asked = plane.ask_a_person(given)
                plane.approvals[asked["approval"]] |= {k: v for k, v in given.items() if k != "id"}
                self.reply(201, plane.approvals[asked["approval"]])
            elif path.endswith("/cancel"):
                plane.approvals[path.split("/")[1]].update(state="cancelled", note=given.get("reason", ""))
                self.reply(200, {})
            else:
                self.refuse(404, "not_found")

    return Handler


def _enrolled(plane: FakePlane) -> dict[str, Any]:
    later = (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "agent": {"id": str(uuid.uuid4()), "name": "build-7"}, "team": TEAM, "profile": PROFILE,
        "credential": {"secret": "cad_secret", "expires_at": later, "rotate_after": later},
        "ring": plane.ring.to_json(), "now": now(),
    }  # fmt: skip
