"""Replies with long or many header fields, as gateways send them."""

import pytest

from income_client import BasicAuth, ConnectionFailedError, IncomeClient, RetryPolicy
from income_client.receivers.jwks import fetch_key_set
from tests.support.server import Reply, ScriptedServer, in_turn

LONG_FIELD = f"Content-Security-Policy: {'a' * 60_000}\r\n"
MANY_FIELDS = "".join(f"Set-Cookie: name-{number}=value\r\n" for number in range(900))


def with_fields(fields: str, body: bytes = b'{"keys":[]}') -> Reply:
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n{fields}\r\n"
    return Reply(raw=head.encode() + body)


@pytest.mark.parametrize("fields", [LONG_FIELD, MANY_FIELDS], ids=["long", "many"])
async def test_long_heads_are_read(fields: str) -> None:
    """Aiohttp alone refuses a field of more than 8,190 bytes, and more than 128 of them."""
    async with ScriptedServer(in_turn(with_fields(fields))) as server:
        async with IncomeClient(server.url, auth=BasicAuth("user", "invented")) as client:
            assert await client.get_json("/x") == {"keys": []}
        assert await fetch_key_set(server.url) == {"keys": []}


@pytest.mark.parametrize("fields", [LONG_FIELD * 2, MANY_FIELDS * 2], ids=["long", "many"])
async def test_a_head_beyond_the_limits_is_called_so(fields: str) -> None:
    fields = fields.replace("\r\nContent-Security-Policy: ", "")
    async with (
        ScriptedServer(in_turn(with_fields(fields))) as server,
        IncomeClient(
            server.url, auth=BasicAuth("user", "invented"), retry=RetryPolicy(max_attempts=1)
        ) as client,
    ):
        with pytest.raises(ConnectionFailedError, match="the head of the reply is too long"):
            await client.get_json("/x")
