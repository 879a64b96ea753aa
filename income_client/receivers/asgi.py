"""An endpoint as an ASGI application, to mount in an application of any framework.

What a server says of its peer is believed only where no header can have changed it.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, Final

from income_client.errors import ConfigurationError

from .adapters import PEER_EXTENSION, BodyCutError, Endpoint, endpoint_of, logger
from .exchange import REWRITTEN_PEER, UNIX_PEER, Answer, RequestHead
from .issuer import CallbackTokenIssuer

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_FORWARDING: Final = frozenset({b"x-forwarded-for", b"x-real-ip", b"forwarded"})
"""Fields from which servers and middlewares take an address in the place of their peer's."""
_TRAILING: Final = frozenset({b"transfer-encoding", b"trailer"})
"""Fields of requests that may have trailers, which some servers append to the header fields."""
_PORTS: Final = range(1, 65536)
_POLICY_VIOLATION: Final = 1008


class Receiver:
    """An ASGI application that answers every request by an endpoint.

    Give it a route of its own: ``app.add_route("/callbacks", Receiver(receiver))`` in
    Starlette and FastAPI, whose ``mount`` would answer ``/callbacks`` with a redirect;
    ``Litestar([asgi("/callbacks", copy_scope=True)(Receiver(receiver))])`` in Litestar. It
    may be the whole application, too.

    ASGI servers and their middlewares put forwarded addresses in the place of their
    peer's, uvicorn by default, and some take trailers, which anybody may have sent, for
    headers of a proxy. So where a request has such a header or may have trailers, the peer is
    believed only from the protocol in `income_client.receivers.uvicorn`.

    Args:
        receiver: a `CallbackReceiver`, or a `CallbackTokenIssuer` for its token address.
        is_peer_true: whether this server is known to report the address of its true peer,
            whatever headers a request has, and to take no trailer for a header.

    Raises:
        ConfigurationError: the receiver is neither.
    """

    def __init__(
        self, receiver: Endpoint | CallbackTokenIssuer, *, is_peer_true: bool = False
    ) -> None:
        self._endpoint = endpoint_of(receiver)
        self._is_peer_true = is_peer_true
        self._has_warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request (ASGI 3)."""
        match scope["type"]:
            case "http":
                await self._answer_request(scope, receive, send)
            case "lifespan":
                await _answer_lifespan(receive, send)
            case "websocket":
                await receive()
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            case _:
                del scope, receive, send  # crash reporters send the variables of frames
                raise ConfigurationError("callbacks come by HTTP and by nothing else")

    async def _answer_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = RequestHead(
            method=scope["method"],
            headers=tuple((bytes(name), bytes(value)) for name, value in scope["headers"]),
            peer=_peer_of(scope, is_true=self._is_peer_true),
            certificate=_certificate_of(scope),
        )
        answer = await self._endpoint.answer(head, _read_chunks(receive))
        if head.peer == REWRITTEN_PEER and answer.status == HTTPStatus.FORBIDDEN:
            self._warn_of_server()
        # The client may be gone; to some servers that is an error.
        with contextlib.suppress(OSError):
            await _send_answer(answer, send, is_http1=scope["http_version"].startswith("1"))

    def _warn_of_server(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "this server may replace its peer's address by a forwarded one, or take trailers "
                "for header fields, so proxies cannot be recognised; start uvicorn with "
                "--http income_client.receivers.uvicorn:H11Protocol"
            )


def _peer_of(scope: Scope, *, is_true: bool) -> str | None:
    extension = (scope.get("extensions") or {}).get(PEER_EXTENSION)
    if extension is not None:
        peer: str | None = extension["peer"]
        return peer
    client = scope.get("client")
    is_unix = _is_unix(scope.get("server"))
    names = {bytes(name).lower() for name, _ in scope["headers"]}
    if not is_true and not _TRAILING.isdisjoint(names):
        return REWRITTEN_PEER
    if not client:
        # Some servers do not report the peer; it is then not taken for this machine.
        return UNIX_PEER if is_unix else None
    host, port = client
    if is_unix or not isinstance(host, str) or port not in _PORTS:
        return REWRITTEN_PEER
    return host if is_true or _FORWARDING.isdisjoint(names) else REWRITTEN_PEER


def _is_unix(server: Any) -> bool:
    match server:
        case (str() as path, None):
            return path != ""
        case _:
            return False


def _certificate_of(scope: Scope) -> bytes | None:
    """Return the client's certificate in DER, from the TLS extension of ASGI."""
    tls: Mapping[str, Any] | None = (scope.get("extensions") or {}).get("tls")
    if not tls or tls.get("client_cert_error") is not None:
        return None
    first = next(iter(tls.get("client_cert_chain") or ()), None)
    if not isinstance(first, str):
        return None
    try:
        return ssl.PEM_cert_to_DER_cert(first)
    except ValueError:
        return None


async def _read_chunks(receive: Receive) -> AsyncIterator[bytes]:
    is_more = True
    while is_more:
        message = await receive()
        if message["type"] != "http.request":
            raise BodyCutError
        is_more = message.get("more_body", False)
        yield message.get("body", b"")


async def _send_answer(answer: Answer, send: Send, *, is_http1: bool) -> None:
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in answer.headers
        # Newer versions know no such header, and some servers fail on it.
        if is_http1 or name != "Connection"
    ]
    headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
