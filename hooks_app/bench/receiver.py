"""A receiver for the webhook bench, as quick as one Python process can be: counts messages, notes when they came.

python -m hooks_app.bench.receiver            prints its port
POST /…                                       204
POST /hang                                    accepted, never answered
GET /                                         {"count": …, "first": …, "last": …}, then starts anew
"""

from __future__ import annotations

import asyncio
import json
import time

OK = b"HTTP/1.1 204 No Content\r\n\r\n"


class Count:
    """What came since it was last asked."""

    def __init__(self) -> None:
        self.count, self.first, self.last = 0, 0.0, 0.0

    def one(self) -> None:
        """Count a message."""
        self.last = time.time()
        self.first = self.first or self.last
        self.count += 1

    def taken(self) -> bytes:
        """Tell, and begin anew."""
        body = json.dumps(vars(self)).encode()
        self.__init__()  # type: ignore[misc]
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


count = Count()


class Peer(asyncio.Protocol):
    """One connection; requests come one after the other."""

    def __init__(self) -> None:
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            at = head.find(b"content-length:")
            size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + size:
                return
            self.buffer = self.buffer[end + 4 + size :]
            self.answer(head)

    def answer(self, head: bytes) -> None:
        """Answer one request."""
        if head.startswith(b"get"):
            self.transport.write(count.taken())  # type: ignore[attr-defined]
        elif not head.startswith(b"post /hang"):
            count.one()
            self.transport.write(OK)  # type: ignore[attr-defined]


async def serve() -> None:
    """Serve until killed."""
    server = await asyncio.get_running_loop().create_server(Peer, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
