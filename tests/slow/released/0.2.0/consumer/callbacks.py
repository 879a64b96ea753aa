# pyright: strict
"""A lender's code that takes callbacks; type checkers read it, nobody runs it."""

import ssl
from collections.abc import Mapping
from datetime import datetime
from typing import Any, assert_type

from aiohttp import web

from income_client import (
    BasicAuth,
    Callback,
    CallbackBasicAuth,
    CallbackBearerAuth,
    CallbackClientCertificate,
    CallbackSourceNetworks,
    CallbackTokenIssuer,
    OAuth2ClientCredentials,
    Poller,
    Secret,
)
from income_client.receivers import (
    UNIX_PEER,
    Answer,
    CallbackReceiver,
    ReceiverStatus,
    RequestHead,
    callback_ssl_context,
)
from income_client.receivers.aiohttp import routes
from income_client.receivers.aiohttp_server import serving
from income_client.receivers.asgi import Receiver


async def heard(callback: Callback) -> None:
    """A handler may be awaited."""
    assert_type(callback.event_type, str | None)
    assert_type(callback.application_id, str | None)
    assert_type(callback.payload, Any)
    assert_type(callback.received_at, datetime)
    assert_type(callback.is_repeat, bool)


async def believed(token: str) -> bool:
    """A verifier may be awaited, too."""
    return token != ""


def checks() -> list[CallbackReceiver]:
    """Each kind of check is an ``auth``, and several are."""
    issuer = CallbackTokenIssuer(
        "client", Secret("s" * 32), lifetime=600, also=[OAuth2ClientCredentials("old", "o" * 32)]
    )
    assert_type(issuer.auth, CallbackBearerAuth)
    basic = CallbackBasicAuth("service", "password", also=[BasicAuth("service", "old")])
    networks = CallbackSourceNetworks(["198.51.100.0/24"], is_enough=False)
    bearer = CallbackBearerAuth(
        jwks_url="https://login.example/keys",
        issuer="https://login.example",
        audience=["callbacks"],
        claims={"scope": "callbacks"},
        algorithms=["RS256"],
        leeway=30,
    )
    certificate = CallbackClientCertificate(
        san=["callbacks.example.com"],
        proxy_header="Client-Cert",
        verified_header=("X-SSL-Client-Verify", "SUCCESS"),
    )
    return [
        CallbackReceiver(heard, auth=basic),
        CallbackReceiver(heard, auth=[basic, networks], on_repeat="skip", timeout=5),
        CallbackReceiver(print, auth=[bearer, certificate], trusted_proxies=["10.0.0.5"]),
        CallbackReceiver(print, auth=CallbackBearerAuth(verify=believed)),
        CallbackReceiver(
            heard,
            auth=issuer.auth,
            concurrency=4,
            queue=8,
            retry_after=1,
            max_body_bytes=1024,
            body_timeout=1,
            repeat_window=60,
        ),
    ]


async def serves(poller: Poller, issuer: CallbackTokenIssuer) -> None:
    """The same receiver goes into any framework."""
    receiver = CallbackReceiver(poller.wake, auth=issuer.auth)
    app = web.Application()
    app.add_routes(routes(receiver, "/callbacks"))
    assert_type(Receiver(receiver, is_peer_true=True), Receiver)
    context = callback_ssl_context(
        "server.pem", "server.key", None, client_certificates="optional", password="invented"
    )
    assert_type(context, ssl.SSLContext)
    served = [*routes(receiver, "/callbacks"), *routes(issuer, "/token")]
    async with serving(served, host="127.0.0.1", port=0, ssl=context, on_unknown=print) as url:
        assert_type(url, str)


async def takes(receiver: CallbackReceiver, headers: Mapping[str, str], body: bytes) -> int:
    """A framework without an adapter hands over what it has."""
    head = RequestHead(method="POST", headers=headers, peer=UNIX_PEER)
    answer = await receiver.answer(head, body)
    assert_type(answer, Answer)
    assert_type(answer.headers, tuple[tuple[str, str], ...])
    assert_type(await receiver.verify(head, body), Callback)
    status = receiver.status
    assert_type(status, ReceiverStatus)
    assert_type(status.refused, Mapping[str, int])
    assert_type(status.last_handled_at, datetime | None)
    return answer.status
