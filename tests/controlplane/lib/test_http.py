from __future__ import annotations

import contextlib
import gzip
import os
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controlplane.lib import http
from controlplane.lib.http import Client, OutboundError, Response, Timeout

Handler = Callable[[socket.socket], None]
LOOPBACK = ["127.0.0.0/8", "::1"]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def read_request(conn: socket.socket) -> bytes:
    """One request: head, and as much body as its Content-Length says."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = conn.recv(65536)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += conn.recv(65536)
    return head + b"\r\n\r\n" + body


class Server:
    """A loopback server that hands each connection to a function, and remembers what it was asked."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self.handler, self.tls = handler, tls
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                conn, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn: socket.socket) -> None:
        with contextlib.suppress(OSError), conn:
            self.handler(self.tls.wrap_socket(conn, server_side=True) if self.tls else conn)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def start(handler: Handler, tls: ssl.SSLContext | None = None) -> Server:
        started.append(Server(handler, tls))
        return started[-1]

    yield start
    for server in started:
        server.listener.close()


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client(allow=LOOPBACK, timeout=Timeout(connect=1, read=1, total=2))
    yield made
    made.close()


def always(answer: bytes, seen: list[bytes] | None = None) -> Handler:
    """Answer every request on a connection with the same bytes."""

    def handler(conn: socket.socket) -> None:
        while request := read_request(conn):
            if seen is not None:
                seen.append(request)
            conn.sendall(answer)

    return handler


def once(answer: bytes) -> Handler:
    """Answer one request, then close."""

    def handler(conn: socket.socket) -> None:
        read_request(conn)
        conn.sendall(answer)

    return handler


def failing(call: Callable[[], Response]) -> OutboundError:
    with pytest.raises(OutboundError) as raised:
        call()
    return raised.value


def test_a_request_says_what_it_should_and_nothing_more(serve: Any, client: Client) -> None:
    seen: list[bytes] = []
    server = serve(always(OK, seen))
    response = client.post(f"{server.url}/a?b=c", json={"x": "é"}, headers={"X-Id": "7"})
    assert (response.status, response.ok, response.body, response.text()) == (200, True, b"ok", "ok")
    assert response.header("content-length") == "2"
    assert seen[0].decode().split("\r\n") == [
        "POST /a?b=c HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        "Accept-Encoding: identity",
        "User-Agent: Caduceus",
        "Content-Type: application/json",
        "X-Id: 7",
        "Content-Length: 10",
        "",
        '{"x":"é"}',
    ]


def test_an_error_status_is_an_answer(serve: Any, client: Client) -> None:
    server = serve(always(b"HTTP/1.1 503 Busy\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n"))
    response = client.get(server.url)
    assert (response.status, response.ok, response.header("Retry-After")) == (503, False, "5")
    assert failing(lambda: response.json()).kind == "protocol"


def test_json_answers(serve: Any, client: Client) -> None:
    server = serve(once(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n3\r\n 1}\r\n0\r\n\r\n'))
    assert client.get(server.url).json() == {"a": 1}


# Where it may connect


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://127.1:{port}/",
        "http://2130706433:{port}/",
        "http://0x7f.0.0.1:{port}/",
        "http://0:{port}/",
        "http://[::1]:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://[::ffff:7f00:1]:{port}/",
        "http://[64:ff9b::7f00:1]:{port}/",
        "http://[fe80::1%25eth0]:{port}/",
        "http://169.254.169.254/latest/meta-data/",
    ],
)
def test_internal_addresses_are_refused_however_they_are_written(serve: Any, url: str) -> None:
    server = serve(always(OK))
    error = failing(lambda: Client().get(url.format(port=server.port)))
    assert (error.kind, error.sent, error.retryable) == ("refused_address", False, False)
    assert "OUTBOUND_ALLOW" in error.message
    assert server.connections == 0


def answers(*turns: list[str]) -> Callable[..., Any]:
    """A resolver that gives another answer each time, as a rebinding name server does."""
    remaining = list(turns)

    def getaddrinfo(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        found = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return [
            (socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in found
        ]

    return getaddrinfo


def test_rebinding_does_not_help(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is asked once; the address that was checked is the address that is connected."""
    server = serve(always(OK))
    connected: list[Any] = []
    real = socket.socket.connect

    def connect(sock: socket.socket, address: Any) -> None:
        connected.append(address)
        real(sock, ("127.0.0.2", 9) if address[0] == "93.184.216.34" else address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", answers(["93.184.216.34"], ["127.0.0.1"]))
    attacked = Client(timeout=Timeout(connect=0.5))
    assert failing(lambda: attacked.get(f"http://rebind.test:{server.port}/")).kind == "connect"
    assert failing(lambda: attacked.get(f"http://rebind.test:{server.port}/")).kind == "refused_address"
    assert connected == [("93.184.216.34", server.port)]
    assert server.connections == 0


def test_of_several_addresses_only_permitted_ones_are_tried(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(always(OK))
    monkeypatch.setattr(socket, "getaddrinfo", answers(["10.0.0.1", "127.0.0.3", "127.0.0.1", "::1"]))
    refused = socket.create_server(("127.0.0.3", 0))
    refused.close()
    allowed = Client(allow=["127.0.0.0/8"], timeout=Timeout(connect=1))
    assert allowed.get(f"http://many.test:{server.port}/").ok


def test_a_place_may_be_allowed_by_name(serve: Any) -> None:
    server = serve(always(OK))
    allowed = Client(allow=[f"localhost:{server.port}"])
    assert allowed.get(f"http://localhost:{server.port}/").ok
    assert failing(lambda: allowed.get(server.url)).kind == "refused_address"


def test_a_name_that_does_not_resolve(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    def unknown(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    error = failing(lambda: client.get("http://nowhere.test/"))
    assert (error.kind, error.message, error.sent) == ("connect", "nowhere.test cannot be resolved", False)


def test_a_resolver_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: time.sleep(1))
    started = time.monotonic()
    assert failing(lambda: Client(timeout=Timeout(connect=0.1)).get("http://slow.test/")).kind == "timeout"
    assert time.monotonic() - started < 0.8


def test_nobody_listens(client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = failing(lambda: client.get(f"http://127.0.0.1:{port}/"))
    assert (error.kind, error.sent, error.retryable) == ("connect", False, True)
    assert "Connection refused" in error.message


# What it may be asked


@pytest.mark.parametrize(
    "url",
    [
        *("", "example.org", "//example.org", "ftp://example.org/", "file:///etc/passwd", "gopher://127.0.0.1:6379/_x"),
        *("http://", "http://:80/", "http://a:b@example.org/", "http://a@example.org/", "http://example.org:99999/"),
        *("http://exa mple.org/", "http://example.org/a\r\nX: y", "http://example.org/\t", "http://example.org/é"),
        *("http://exa\\mple.org/", "http://[::1", "http://example.org:x/", "http://é.org/"),
        "http://example.org/" + "a" * 9000,
    ],
)
def test_malformed_urls(url: str, client: Client) -> None:
    error = failing(lambda: client.get(url))
    assert (error.kind, error.sent) == ("protocol", False)


@pytest.mark.parametrize(
    "headers",
    [
        {"X": "a\r\nY: b"},
        {"X": "a\nb"},
        {"X": "a\r\n b"},
        {"X\r\nY": "a"},
        {"X Y": "a"},
        {"": "a"},
        {"X:": "a"},
        {"X": "a\0"},
        {"X": "Ā"},
        {"Host": "internal"},
        {"transfer-encoding": "chunked"},
        {"Content-Length": "5"},
    ],
)
def test_headers_cannot_be_smuggled(headers: dict[str, str], client: Client) -> None:
    assert failing(lambda: client.get("http://127.0.0.1/", headers=headers)).kind == "protocol"


@pytest.mark.parametrize("method", ["", "get", "GET /x HTTP/1.1\r\nA: b", "G T", "É"])
def test_methods_cannot_be_smuggled(method: str, client: Client) -> None:
    assert failing(lambda: client.request(method, "http://127.0.0.1/")).kind == "protocol"


# How long it may take


def drip(piece: bytes, pause: float) -> Handler:
    """Send a never-ending answer, one piece at a time."""

    def handler(conn: socket.socket) -> None:
        read_request(conn)
        conn.sendall(b"HTTP/1.1 200 OK\r\n" + (b"\r\n" if piece == b"x" else b""))
        while True:
            conn.sendall(piece)
            time.sleep(pause)

    return handler


@pytest.mark.parametrize("piece", [b"x", b"A: b\r\n", b"A"], ids=["body", "headers", "one header"])
def test_a_server_that_drips_ends_at_the_total_timeout(serve: Any, client: Client, piece: bytes) -> None:
    server = serve(drip(piece, 0.05))
    started = time.monotonic()
    error = failing(lambda: client.get(server.url, timeout=Timeout(connect=1, read=1, total=0.5)))
    assert (error.kind, error.sent, error.retryable) == ("timeout", True, True)
    assert 0.4 < time.monotonic() - started < 1.5


def test_a_silent_server_ends_at_the_read_timeout(serve: Any, client: Client) -> None:
    server = serve(lambda conn: time.sleep(2))
    started = time.monotonic()
    assert failing(lambda: client.get(server.url, timeout=Timeout(1, 0.2, 5))).kind == "timeout"
    assert time.monotonic() - started < 1


def test_a_server_that_does_not_read(serve: Any, client: Client) -> None:
    server = serve(lambda conn: time.sleep(2))
    error = failing(lambda: client.post(server.url, body=b"x" * 20_000_000, timeout=Timeout(1, 0.2, 1)))
    assert (error.kind, error.sent) == ("timeout", True)


# How much it may answer


def test_a_body_within_the_limit_exactly(serve: Any, client: Client) -> None:
    server = serve(always(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"))
    assert client.get(server.url, max_bytes=10).body == b"0123456789"
    assert failing(lambda: client.get(server.url, max_bytes=9)).kind == "too_large"


def test_a_huge_body_is_refused_from_its_announcement(serve: Any, client: Client) -> None:
    server = serve(once(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"))
    error = failing(lambda: client.get(server.url))
    assert (error.kind, error.sent) == ("too_large", True)


@pytest.mark.parametrize("chunked", [True, False])
def test_an_endless_body_is_cut(serve: Any, client: Client, chunked: bool) -> None:
    sent = 0

    def handler(conn: socket.socket) -> None:
        nonlocal sent
        read_request(conn)
        conn.sendall(b"HTTP/1.1 200 OK\r\n" + (b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"\r\n"))
        while True:
            conn.sendall((b"10000\r\n" if chunked else b"") + b"x" * 65536 + (b"\r\n" if chunked else b""))
            sent += 65536

    assert failing(lambda: client.get(serve(handler).url, max_bytes=100_000)).kind == "too_large"
    assert sent < 20_000_000


def compressed(body: bytes, encoding: str) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def test_compressed_answers_are_read(serve: Any, client: Client) -> None:
    assert client.get(serve(once(compressed(gzip.compress(b"hello"), "gzip"))).url).body == b"hello"
    assert client.get(serve(once(compressed(zlib.compress(b"hello"), "deflate"))).url).body == b"hello"
    assert client.get(serve(once(compressed(b"", "gzip"))).url).body == b""


def test_a_gzip_bomb_is_refused(serve: Any, client: Client) -> None:
    bomb = gzip.compress(b"\0" * 100_000_000, 1)
    assert failing(lambda: client.get(serve(once(compressed(bomb, "gzip"))).url)).kind == "too_large"


@pytest.mark.parametrize(
    "answer",
    [
        compressed(gzip.compress(b"hello")[:-5], "gzip"),
        compressed(b"no gzip at all", "gzip"),
        compressed(b"x", "br"),
        compressed(b"x", "gzip, gzip"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    ],
    ids=range(12),
)
def test_improper_answers(serve: Any, client: Client, answer: bytes) -> None:
    error = failing(lambda: client.get(serve(once(answer)).url))
    assert (error.kind, error.sent) == ("protocol", True)


def test_an_answer_that_never_comes(serve: Any, client: Client) -> None:
    error = failing(lambda: client.get(serve(lambda conn: read_request(conn)[:0]).url + "/secret-path?token=x"))
    assert (error.kind, error.sent) == ("connect", True)
    assert "secret-path" not in error.message


# Redirects


def redirect(to: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()


def test_redirects_are_not_followed_unless_asked(serve: Any, client: Client) -> None:
    seen: list[bytes] = []
    aim = serve(always(OK, seen))
    start = serve(always(redirect(aim.url)))
    assert client.get(start.url).status == 302
    assert seen == []
    assert client.get(start.url, redirects=1).status == 200
    assert client.get(start.url, redirects=1, headers={"Authorization": "x", "Accept": "a/b"}).ok
    assert b"Authorization" not in seen[1]
    assert b"Accept: a/b" in seen[1]


def test_a_redirect_into_the_private_network_is_refused(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    aim = serve(always(OK))
    start = serve(always(redirect(f"http://127.0.0.1:{aim.port}/admin")))
    outside = Client(allow=[f"public.test:{start.port}"])
    monkeypatch.setattr(socket, "getaddrinfo", answers(["127.0.0.1"]))
    assert failing(lambda: outside.get(f"http://public.test:{start.port}/", redirects=3)).kind == "refused_address"
    assert aim.connections == 0


@pytest.mark.parametrize(
    ("status", "method", "body"), [(303, b"GET", b""), (302, b"GET", b""), (307, b"POST", b"data")]
)
def test_the_method_after_a_redirect(serve: Any, client: Client, status: int, method: bytes, body: bytes) -> None:
    seen: list[bytes] = []

    def handler(conn: socket.socket) -> None:
        seen.append(read_request(conn))
        conn.sendall(redirect("/next", status))
        seen.append(read_request(conn))
        conn.sendall(OK)

    assert client.post(serve(handler).url, body=b"data", redirects=1).ok
    assert seen[1].startswith(method + b" /next ")
    assert seen[1].endswith(b"\r\n\r\n" + body)


@pytest.mark.parametrize("to", ["file:///etc/passwd", "http://[bad", "http://a b/"])
def test_redirects_to_nonsense(serve: Any, client: Client, to: str) -> None:
    assert failing(lambda: client.get(serve(always(redirect(to))).url, redirects=1)).kind == "protocol"


def test_redirects_end(serve: Any, client: Client) -> None:
    assert client.get(serve(always(redirect("/again"))).url, redirects=3).status == 302


# Kept connections


def test_a_connection_is_used_again(serve: Any, client: Client) -> None:
    server = serve(always(OK))
    for _ in range(5):
        assert client.get(server.url).ok
    assert server.connections == 1


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\n\r\nok", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"])
def test_a_connection_that_ends_with_its_answer_is_not_kept(serve: Any, client: Client, answer: bytes) -> None:
    server = serve(once(answer))
    assert [client.get(server.url).body for _ in range(3)] == [b"ok"] * 3
    assert server.connections == 3


def test_a_connection_closed_meanwhile_is_replaced(serve: Any, client: Client) -> None:
    server = serve(once(OK))
    assert client.post(server.url).ok
    time.sleep(0.1)
    assert client.post(server.url).ok
    assert server.connections == 2


def test_stray_bytes_after_an_answer_are_not_taken_for_the_next(serve: Any, client: Client) -> None:
    server = serve(once(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"))
    assert client.get(server.url).body == b"ok"
    time.sleep(0.05)
    assert client.get(server.url).body == b"ok"


def closes_on_the_second(conn: socket.socket) -> None:
    read_request(conn)
    conn.sendall(OK)
    read_request(conn)


def test_only_what_may_be_repeated_is_repeated(serve: Any, client: Client) -> None:
    server = serve(closes_on_the_second)
    assert client.get(server.url).ok
    assert client.get(server.url).ok
    assert server.connections == 2
    error = failing(lambda: client.post(server.url))
    assert (error.kind, error.sent) == ("connect", True)
    assert client.post(server.url, idempotent=True).ok
    assert client.post(server.url, idempotent=True).ok


def test_many_threads_share_one_client(serve: Any) -> None:
    server = serve(always(OK))
    shared = Client(allow=LOOPBACK, idle_per_place=4)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: shared.post(f"{server.url}/{n}", body=b"x").body, range(400)))
    assert answers == [b"ok"] * 400
    assert server.connections < 100
    assert shared._pool.count <= 4


def test_idle_connections_are_bounded_and_expire(serve: Any) -> None:
    servers = [serve(always(OK)) for _ in range(4)]
    small = Client(allow=LOOPBACK, idle_total=2, idle_seconds=0.1)
    for server in servers:
        assert small.get(server.url).ok
    assert small._pool.count == 2
    time.sleep(0.15)
    assert small.get(servers[3].url).ok
    assert (small._pool.count, set(small._pool.idle)) == (1, {("http", "127.0.0.1", servers[3].port)})
    small.close()
    assert small._pool.count == 0


# TLS


def certificate(directory: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server context with a fresh certificate for this name, and a client context that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = signed.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "both.pem").write_bytes(private + pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(directory / "both.pem")
    return server, ssl.create_default_context(cadata=pem.decode())


def test_tls_checks_the_name_and_sends_it(serve: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names: list[str] = []
    context, trusting = certificate(tmp_path, "hooks.test")
    context.sni_callback = lambda sock, name, ctx: names.append(name)
    server = serve(always(OK), context)
    monkeypatch.setattr(socket, "getaddrinfo", answers(["127.0.0.1"]))
    known = Client(allow=LOOPBACK, tls=trusting)
    assert known.get(f"https://hooks.test:{server.port}/").ok
    assert known.get(f"https://hooks.test:{server.port}/").ok
    assert names == ["hooks.test"]
    wrong_name = failing(lambda: known.get(f"https://other.test:{server.port}/"))
    assert (wrong_name.kind, wrong_name.sent) == ("tls", False)
    assert "Hostname mismatch" in wrong_name.message
    stranger = failing(lambda: Client(allow=LOOPBACK).get(f"https://hooks.test:{server.port}/"))
    assert (stranger.kind, stranger.retryable) == ("tls", False)


def test_tls_with_a_server_that_does_not_speak_it(serve: Any, client: Client) -> None:
    server = serve(lambda conn: conn.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    assert failing(lambda: client.get(f"https://127.0.0.1:{server.port}/")).kind == "tls"


def test_a_handshake_that_hangs(serve: Any) -> None:
    server = serve(lambda conn: time.sleep(2))
    hasty = Client(allow=LOOPBACK, timeout=Timeout(connect=0.2))
    assert failing(lambda: hasty.get(f"https://127.0.0.1:{server.port}/")).kind == "timeout"


def test_a_redirect_away_from_https_is_refused(serve: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    context, trusting = certificate(tmp_path, "hooks.test")
    server = serve(always(redirect("http://hooks.test/")), context)
    monkeypatch.setattr(socket, "getaddrinfo", answers(["127.0.0.1"]))
    error = failing(lambda: Client(allow=LOOPBACK, tls=trusting).get(f"https://hooks.test:{server.port}/", redirects=1))
    assert (error.kind, "away from https" in error.message) == ("protocol", True)


# The shared client


def test_the_shared_client_follows_the_settings_and_is_not_inherited(serve: Any, settings: Any) -> None:
    server = serve(always(OK))
    http._forget_shared()
    settings.OUTBOUND_ALLOW = [f"127.0.0.1:{server.port}"]
    assert http.client() is http.client()
    assert http.client().get(server.url).ok
    child = os.fork()
    if child == 0:
        os._exit(0 if http._shared is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    http._forget_shared()
