"""ASGI without a server: a scope and messages in, messages out."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from income_client.receivers.asgi import Receiver
from income_client.receivers.exchange import RequestHead
from tests.support.callback_endpoints import Telling

WHOLE = ({"type": "http.request", "body": b"{}"},)


def scope_of(**changed: Any) -> dict[str, Any]:
    """Return the scope of a callback."""
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/callbacks",
        "headers": [(b"content-type", b"application/json")],
        "client": ("192.0.2.9", 4711),
        "server": ("192.0.2.1", 443),
    } | changed


async def sent_by(
    app: Callable[[Any, Any, Any], Awaitable[None]],
    scope: dict[str, Any],
    messages: Iterable[dict[str, Any]] = WHOLE,
) -> list[MutableMapping[str, Any]]:
    """Return what an application sends upon these messages."""
    sent: list[MutableMapping[str, Any]] = []
    coming = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(coming)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


async def told(scope: dict[str, Any]) -> RequestHead:
    """Return what the endpoint is told of a request."""
    endpoint = Telling()
    await sent_by(Receiver(endpoint), scope)
    return endpoint.heads[0]
