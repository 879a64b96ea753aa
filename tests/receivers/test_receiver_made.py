"""A receiver that cannot be meant is not made, and the message says what is meant."""

from collections.abc import AsyncIterator

import pytest

from income_client import (
    BasicAuth,
    CallbackClientCertificate,
    CallbackSourceNetworks,
    CallbackTokenIssuer,
    ConfigurationError,
    OAuth2ClientCredentials,
)
from income_client.receivers import CallbackReceiver, RequestHead
from tests.support.callback_requests import AUTHORIZATION, BASIC, Heard, ring, ring_head


async def yields(_callback: object) -> AsyncIterator[None]:
    """Do nothing when it is called."""
    yield


@pytest.mark.parametrize(
    "wrong",
    [
        {"auth": []},
        {"auth": CallbackSourceNetworks(["198.51.100.7"])},
        {"auth": [BASIC, BASIC]},
        {"auth": ["service:password"]},
        {"auth": None},
        {"auth": CallbackClientCertificate(san="a.example", proxy_header="Client-Cert")},
        {"on_callback": 7},
        {"on_callback": lambda: None},
        {"on_callback": yields},
        {"on_callback": lambda _callback, _more: None},
        {"concurrency": 0},
        {"queue": 0},
        {"timeout": 0},
        {"retry_after": float("inf")},
        {"max_body_bytes": 1.5},
        {"body_timeout": -1},
        {"repeat_window": -1},
        {"on_repeat": "ignore"},
        {"trusted_proxies": "10.0.0.1"},
    ],
)
def test_a_receiver_that_cannot_be_meant_is_refused(wrong: dict[str, object]) -> None:
    """One without any check first of all."""
    arguments = {"on_callback": Heard(), "auth": BASIC} | wrong
    with pytest.raises(ConfigurationError):
        CallbackReceiver(**arguments)  # type: ignore[arg-type]


async def test_networks_may_be_said_to_be_enough() -> None:
    """Where the service is given no credentials."""
    networks = CallbackSourceNetworks(["198.51.100.7"], is_enough=True)
    receiver = CallbackReceiver(Heard(), auth=networks)
    assert (await ring(receiver, head=ring_head(None))).status == 200


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (BasicAuth("service", "p"), "CallbackBasicAuth"),
        (CallbackTokenIssuer("service", "s" * 32), ".auth"),
        (OAuth2ClientCredentials("service", "p"), "CallbackTokenIssuer"),
        (None, "CallbackBearerAuth"),
    ],
)
def test_what_is_no_check_is_told_with_what_is_meant(given: object, meant: str) -> None:
    """The likeliest mistakes by name."""
    with pytest.raises(ConfigurationError, match=meant):
        CallbackReceiver(Heard(), auth=given)  # type: ignore[arg-type]


async def test_heads_of_text_are_heads_too() -> None:
    """As frameworks without an adapter here tell them."""
    receiver = CallbackReceiver(Heard(), auth=BASIC)
    fields = {"Authorization": AUTHORIZATION, "Content-Type": "application/json"}
    for headers in (fields, list(fields.items())):
        head = RequestHead(method="POST", headers=headers)
        assert (await receiver.verify(head, b"{}")).payload == {}
