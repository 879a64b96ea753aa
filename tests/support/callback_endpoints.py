"""Endpoints that stand for a receiver, and tell what an adapter has told them."""

from typing import Any

from attrs import field, frozen

from income_client.receivers.endpoint import Body, read_body
from income_client.receivers.exchange import Answer, RefusedError, RequestHead, answer


@frozen
class Telling:
    """Answers 200 with what it was told, and keeps it."""

    heads: list[RequestHead] = field(factory=list)
    """The heads so far."""
    bodies: list[bytes | None] = field(factory=list)
    """The bodies so far; None for one that was cut."""

    async def answer(self, head: RequestHead, body: Body) -> Answer:
        """Read it all and tell of it."""
        self.heads.append(head)
        try:
            read = await read_body(body, max_bytes=10**9, seconds=50.0)
        except RefusedError as error:
            self.bodies.append(None)
            return answer(error.refusal.status, Connection="close")
        self.bodies.append(read)
        return answer(200, self._told(head, read))

    def _told(self, head: RequestHead, body: bytes) -> dict[str, Any]:
        return {"method": head.method, "peer": head.peer, "bytes": len(body)}


@frozen
class Refusing:
    """Answers 413 and reads no body."""

    heads: list[RequestHead] = field(factory=list)
    """The heads so far."""

    async def answer(self, head: RequestHead, body: Body) -> Answer:
        """Answer at once."""
        self.heads.append(head)
        return answer(413, Connection="close")
