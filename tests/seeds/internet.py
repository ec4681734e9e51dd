"""Every HTTPS host on loopback: a proxy that answers CONNECT itself, with certificates of an authority of its own."""

from __future__ import annotations

import datetime
import json
import socketserver
import ssl
import tempfile
import threading
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOSTS = ("api.telegram.org", "your-service.example.com", "your-memory-api.example.com")


def _certificate(directory: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_path, key_path = directory / "ca.pem", directory / "key.pem"
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate_path, key_path


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        request = self.rfile.readline().decode()
        while self.rfile.readline().strip():
            pass
        self.connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with self.server.context.wrap_socket(self.connection, server_side=True) as secure:
            stream = secure.makefile("rb")
            method, path, _ = stream.readline().decode().split()
            length = 0
            while line := stream.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            body = json.loads(stream.read(length) or b"null")
            self.server.requests.append((request.split()[1].partition(":")[0], method, path, body))
            answer = json.dumps(self.server.answers.get(path, {})).encode()
            secure.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(answer), answer)
            )


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    context: ssl.SSLContext
    requests: list[tuple[str, str, str, Any]]
    answers: dict[str, Any]


class Internet:
    """Records what was sent to whom; answers by path."""

    def __enter__(self) -> Internet:
        self._directory = tempfile.TemporaryDirectory()
        self.certificate, key = _certificate(Path(self._directory.name))
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server.context.load_cert_chain(self.certificate, key)
        self._server.requests, self._server.answers = [], {}
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._directory.cleanup()

    @property
    def requests(self) -> list[tuple[str, str, str, Any]]:
        """Host, method, path and JSON body of each request, in order."""
        return self._server.requests

    @property
    def answers(self) -> dict[str, Any]:
        """What is answered, by path; an empty object otherwise."""
        return self._server.answers

    @property
    def environment(self) -> dict[str, str]:
        """What a hook must have declared to find its way here."""
        port = self._server.server_address[1]
        return {"HTTPS_PROXY": f"http://127.0.0.1:{port}", "SSL_CERT_FILE": "/home/agent/ca.pem"}
