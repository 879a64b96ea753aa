"""A host of files in another process, fast enough to slow no client down; knows no client.

Every file is one block over and over, sent from the same memory by a thread for
each connection. It checks no signature, and can cut its first replies.
"""

import enum
import hashlib
import re
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from random import Random
from typing import Any, Final, assert_never

from attrs import frozen

from income_client import Document, DocumentSource, DownloadPolicy

from .processes import ServiceProcess, Started

POLICY: Final = DownloadPolicy(
    allowed_hosts=("127.0.0.1",), require_https=False, allow_private_networks=True
)
"""What lets a client read files from here."""

# Its length is a prime, so that no part of a file looks like another one of round length.
_BLOCK: Final = memoryview(Random(7).randbytes(1_048_573))
_IDLE_SECONDS: Final = 60.0
_LONG_AGO: Final = datetime(2026, 6, 30, tzinfo=UTC)
_TARGET: Final = re.compile(r"/(?P<name>[\w-]+)/(?P<size>\d+)/(?P<cuts>\d+)\Z", re.ASCII)
_RANGE: Final = re.compile(r"bytes=(?P<first>\d+)-(?P<last>\d*)\Z", re.ASCII)


class _Ask(enum.Enum):
    SENT = "sent"


class FileServer(ServiceProcess):
    """A host of files in another process, until the block is left."""

    def __init__(self) -> None:
        super().__init__(_serve)

    def address(self, name: str, size: int, *, cuts: int = 0) -> str:
        """Return the address of a file.

        Args:
            name: letters, digits and hyphens.
            size: in bytes.
            cuts: replies that end somewhere in their middle before the first whole one.
        """
        return f"{self.url}/{name}/{size}/{cuts}"

    def document(self, name: str, size: int, *, cuts: int = 0) -> Document:
        """Return a document that has this file; arguments are those of `address`."""
        return Document(
            document_id=name,
            file_ids=(f"file-{name}",),
            file_reference_ids=(f"{name}.pdf",),
            url=self.address(name, size, cuts=cuts),
            extracted_data=None,
            updated_at=_LONG_AGO,
            data_action="create",
            source=DocumentSource("app-0", "paystub"),
        )

    def sent(self) -> int:
        """Return how many bytes of files were sent so far."""
        sent: int = self.ask(_Ask.SENT)
        return sent


def sha256_of(size: int) -> str:
    """Return the SHA-256 of a file of a size, in hexadecimal digits."""
    digest = hashlib.sha256()
    for piece in _pieces(range(size)):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(places: range) -> Iterator[memoryview]:
    at = places.start
    while at < places.stop:
        inside = at % len(_BLOCK)
        piece = _BLOCK[inside : inside + places.stop - at]
        yield piece
        at += len(piece)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 1000

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.lock = threading.Lock()
        self.sent = 0
        self.asked: Counter[str] = Counter()
        self.chance = Random(7)


@frozen(kw_only=True)
class _Part:
    size: int
    places: range
    is_cut: bool


class _Connection(socketserver.StreamRequestHandler):
    server: _Server
    disable_nagle_algorithm = True
    timeout = _IDLE_SECONDS

    def handle(self) -> None:
        try:
            while self._answer():
                pass
        except OSError:
            return  # a client may go away at any time

    def _answer(self) -> bool:
        first = self.rfile.readline(8192).decode("latin-1").split()
        fields: dict[str, str] = {}
        while (line := self.rfile.readline(8192).decode("latin-1").strip()) != "":
            name, _, text = line.partition(":")
            fields[name.lower()] = text.strip()
        target = _TARGET.match(first[1]) if len(first) == 3 else None
        if target is None:
            return False
        part = self._part(target, fields.get("range", ""))
        self._send(part, is_range="range" in fields)
        return not part.is_cut

    def _part(self, target: re.Match[str], asked: str) -> _Part:
        size, found = int(target["size"]), _RANGE.match(asked)
        first = int(found["first"]) if found else 0
        last = int(found["last"]) if found and found["last"] else size - 1
        with self.server.lock:
            self.server.asked[target["name"]] += 1
            is_cut = self.server.asked[target["name"]] <= int(target["cuts"])
        return _Part(size=size, places=range(first, min(last + 1, size)), is_cut=is_cut)

    def _send(self, part: _Part, *, is_range: bool) -> None:
        places = part.places
        lines = [
            "HTTP/1.1 206 Partial Content" if is_range else "HTTP/1.1 200 OK",
            f"Content-Length: {len(places)}",
            "Content-Type: application/pdf",
            'ETag: "invented"',
            "Accept-Ranges: bytes",
        ]
        if is_range:
            lines.append(f"Content-Range: bytes {places.start}-{places.stop - 1}/{part.size}")
        self.connection.sendall("\r\n".join([*lines, "", ""]).encode())
        with self.server.lock:
            kept = self.server.chance.randint(1, len(places) // 2) if part.is_cut else len(places)
        for piece in _pieces(places[:kept]):
            self.connection.sendall(piece)
        with self.server.lock:
            self.server.sent += kept


def _serve(connection: "Connection[Any, Any]") -> None:
    with _Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection.send(Started(f"http://127.0.0.1:{server.server_address[1]}", ("nobody", "none")))
        while True:
            try:
                question: _Ask = connection.recv()
            except EOFError:
                server.shutdown()
                return
            match question:
                case _Ask.SENT:
                    with server.lock:
                        connection.send(server.sent)
                case _:
                    assert_never(question)
