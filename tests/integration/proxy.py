"""A bad line to a registry: a proxy that refuses requests, drops them, or stalls them in the middle of their bytes."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from socket import SHUT_RDWR, create_connection, socket
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Literal

REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
PATIENCE = 60.0  # seconds
PIECE = 16_384  # bytes
TLS = b"\x16"
NO_TLS = b"HTTP/1.0 400 Bad Request\r\n\r\n"
"""How a client begins that tries https first, and how Go's servers answer it: Docker then tries http."""


@dataclass(kw_only=True, slots=True)
class Fault:
    """What happens to the first ``times`` requests whose line has ``request`` (a pattern), after so many bytes."""

    request: str
    does: Literal["refuse", "drop", "stall"]
    after: int = 0
    times: int = 1
    taken: int = 0
    """Requests that are its own."""
    met: int = 0
    """Requests that it has happened to."""
    mended: threading.Event = field(default_factory=threading.Event)
    """Set by a test: what stalls goes on."""


@dataclass(slots=True)
class Line:
    """The address that stands for the registry's, and what happens on the way there."""

    host: str
    faults: list[Fault] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    ends: set[socket] = field(default_factory=set)
    """The clients that talk over it now."""

    @contextmanager
    def gone(self) -> Iterator[None]:
        """Nobody gets through while the context lasts, and who talks now is cut off."""
        with self.bad(Fault(request=".", does="refuse", times=1_000_000)):
            _hang_up(*self.ends)
            yield

    @contextmanager
    def bad(self, fault: Fault) -> Iterator[Fault]:
        """A line that is bad while the context lasts."""
        self.faults.append(fault)
        try:
            yield fault
        finally:
            fault.mended.set()
            self.faults.remove(fault)

    def fault(self, request: str) -> Fault | None:
        """The fault that this request meets."""
        with self.lock:
            for fault in self.faults:
                if fault.taken < fault.times and re.search(fault.request, request):
                    fault.taken += 1
                    return fault
        return None


@contextmanager
def bad_line(registry: str) -> Iterator[Line]:
    """A proxy in front of ``registry`` (HOST:PORT); one request a connection, so that each can be met alone."""
    host, _, port = registry.partition(":")

    class Exchange(BaseRequestHandler):
        def handle(self) -> None:
            line.ends.add(self.request)
            with suppress(OSError):
                head, rest = _head(self.request)
                fault = line.fault(head.split(b"\r\n")[0].decode())
                if fault and fault.does == "refuse":
                    fault.met += 1
                    self.request.sendall(REFUSAL)
                    return
                with create_connection((host, int(port))) as onward:
                    onward.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + b"\r\n\r\n" + rest)
                    _exchange(self.request, onward, fault)

        def finish(self) -> None:
            line.ends.discard(self.request)

    with ThreadingTCPServer(("127.0.0.1", 0), Exchange) as server:
        server.daemon_threads = True
        line = Line(f"127.0.0.1:{server.server_address[1]}")
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield line
        finally:
            server.shutdown()


def _head(client: socket) -> tuple[bytes, bytes]:
    """A request's head, without the empty line, and what came of its body already."""
    read = b""
    while b"\r\n\r\n" not in read:
        piece = client.recv(PIECE)
        if piece.startswith(TLS) and not read:
            client.sendall(NO_TLS)
        if not piece or piece.startswith(TLS):
            raise ConnectionError
        read += piece
    head, _, rest = read.partition(b"\r\n\r\n")
    return head, rest


def _exchange(client: socket, registry: socket, fault: Fault | None) -> None:
    """Both directions to their ends; a fault comes when more than ``after`` bytes have gone in one of them."""
    up = threading.Thread(target=_copy, args=(client, registry, fault), daemon=True)
    up.start()
    _copy(registry, client, fault)
    _hang_up(client, registry)
    up.join()


def _copy(source: socket, sink: socket, fault: Fault | None) -> None:
    moved = 0
    with suppress(OSError):
        while piece := source.recv(PIECE):
            moved += len(piece)
            if fault and moved - len(piece) <= fault.after < moved:
                fault.met += 1
                if fault.does == "drop":
                    _hang_up(source, sink)
                    return
                fault.mended.wait(PATIENCE)
            sink.sendall(piece)


def _hang_up(*ends: socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(SHUT_RDWR)
