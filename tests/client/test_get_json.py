"""A GET of what has no method yet: below the address, with all that other calls have."""

import asyncio
import re
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    ConfigurationError,
    DecodeError,
    IncomeClient,
    IncomeClientError,
    NotFoundError,
    RetryPolicy,
    UnexpectedResponseError,
    to_json,
)
from income_client.emulator import Fault
from income_client.events import CallFinished, Event
from income_client.http.endpoints import get_json
from tests.support.clients import BASIC, OAUTH, running
from tests.support.server import (
    UNAUTHORIZED,
    Reply,
    ScriptedServer,
    in_turn,
    reply,
    token_rules,
)
from tests.support.service import served

PATH: Final = "/v1/income/reports"
HTML: Final = reply(body=b"<html>S3CRET</html>", content_type="text/html")
LARGE: Final = reply(body=b"[%s]" % (b" " * 2000))
TEXTS: Final = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=20)
SEGMENTS: Final = (
    *(".", "..", "%2e", "%2E%2e", "%252e%252e", "/", "//", "\\", "%2f", "%5c", "%255c", ";", "?"),
    *("#", "@", ":", "a", "%41", "%00", "\r\n", "\ud800", "é", "https:", "evil.example"),
)


# What is sent


async def test_it_is_a_get_below_the_address_with_the_token() -> None:
    """The prefix of the address stays in front, and the query is quoted."""
    params: dict[str, str | int | list[str | int]] = {
        "from": "2026-01-01T00:00:00",
        "name": "a&b=c d/é",
        "pages": True,
        "kind": ["w2", 7],
    }
    async with (
        ScriptedServer(token_rules(in_turn(reply()))) as server,
        IncomeClient(f"{server.url}/prefix/", auth=OAUTH, auth_url=server.url) as client,
    ):
        assert await client.get_json(f"{PATH}/r%2F1", params) == {}
    (call,) = server.calls
    assert (call.method, call.path, call.body) == ("GET", f"/prefix{PATH}/r%2F1", b"")
    assert call.authorization == "Bearer token-1"
    assert call.headers["accept"] == "application/json"
    assert call.query == (
        "from=2026-01-01T00%3A00%3A00&name=a%26b%3Dc%20d%2F%C3%A9&pages=true&kind=w2&kind=7"
    )


@given(st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=4))
def test_whatever_a_query_holds_comes_out_whole(params: dict[str, str]) -> None:
    """No value ends the query, or adds a parameter to it."""
    query = get_json(PATH, params).query
    assert query.isascii()
    assert parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)) == [*params.items()]


@given(st.lists(st.sampled_from(SEGMENTS), max_size=6).map("".join))
async def test_no_path_leads_out_of_the_prefix(tail: str) -> None:
    """The path is refused, or arrives unchanged below the prefix of the address."""
    path = f"/v1/{tail}"
    async with (
        ScriptedServer(in_turn(reply())) as server,
        IncomeClient(f"{server.url}/prefix", auth=BASIC) as client,
    ):
        with suppress(ConfigurationError):
            await client.get_json(path)
    for request in server.requests:
        assert request.target == f"/prefix{path}"
        assert urlsplit(path).path == path
        # Some servers take a backslash for a slash, and cut off what follows a semicolon.
        steps = re.split(r"[/\\]", unquote(unquote(path)))
        assert not {".", ".."} & {step.partition(";")[0] for step in steps}


# What comes back


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"total": 1.10, "count": 3}', {"total": Decimal("1.10"), "count": 3}),
        (b"[1e400, -0.000]", [Decimal("1e400"), Decimal("-0.000")]),
        (b"9007199254740993.5", Decimal("9007199254740993.5")),
        (b"\xef\xbb\xbfnull", None),
        (b'"text"', "text"),
        (b"true", True),
    ],
)
async def test_any_json_is_returned_with_exact_numbers(body: bytes, value: object) -> None:
    """Any JSON is returned; numbers keep the digits that were sent."""
    async with running(in_turn(reply(body=body))) as (_, client):
        found = await client.get_json(PATH)
    assert found == value
    assert str(found) == str(value) or isinstance(value, dict)


async def test_what_is_returned_is_written_with_the_same_digits() -> None:
    """By `to_json`, whole and in part; ``json.dumps`` would refuse the decimals."""
    rows = b'[{"total":1.10,"ids":[12345678901234567,1E+400,-0.000]},{"name":"\xc3\xa9","x":null}]'
    body = b'{"rows":' + rows + b',"whole":true}'
    async with running(in_turn(reply(body=body), reply(body=rows))) as (_, client):
        found = await client.get_json(PATH)
        assert to_json(found) == body
        assert to_json(found["rows"]) == rows
        assert b"[%b,%b]" % tuple(map(to_json, found["rows"])) == rows
        assert to_json(await client.get_json(PATH)) == rows
    with pytest.raises(ConfigurationError, match="not a record class"):
        to_json({"total": Decimal("NaN")})


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (reply(404), NotFoundError, "404 Not Found; is path right?"),
        (reply(302, Location="https://evil.example/"), UnexpectedResponseError, "302 Found"),
        (HTML, UnexpectedResponseError, "text/html, 19 bytes instead of JSON"),
        (reply(body=b'{"ssn": "S3CR'), DecodeError, "$: not JSON, or cut short"),
        (reply(body=b'["\\ud800"]'), DecodeError, "$[0]: half a surrogate pair, which is no"),
        (reply(body=b"[" * 101 + b"]" * 101), DecodeError, "$: nested too deeply"),
        (LARGE, UnexpectedResponseError, "the reply is larger than 2000 bytes"),
    ],
)
async def test_what_is_no_result_is_the_error_of_any_call(
    answer: Reply, kind: type[IncomeClientError], said: str
) -> None:
    """By its status or its content, which is not shown."""
    async with running(in_turn(answer), most_bytes=2000) as (_, client):
        with pytest.raises(kind) as caught:
            await client.get_json(PATH)
    error = caught.value
    assert error.message.startswith(f"get_json: {said}")
    assert (error.call, error.subject) == ("get_json", None)
    assert "S3CRET" not in repr(error) + str(error)


async def test_it_waits_and_renews_as_every_call_does() -> None:
    """After a 429, a 503, a page of HTML and a refused token; the events are its own."""
    events: list[Event] = []
    options: dict[str, Any] = {"on_event": events.append, "retry": RetryPolicy(max_attempts=6)}
    answers = in_turn(
        reply(429, Retry_After="7"), UNAUTHORIZED, reply(503), HTML, reply(body=b"[1]")
    )
    async with running(answers, **options) as (server, client):
        assert await client.get_json(PATH) == [1]
    assert [one.token for one in server.calls] == ["token-1"] * 2 + ["token-2"] * 3
    assert server.calls[1].at - server.calls[0].at >= 7
    finished = [one for one in events if isinstance(one, CallFinished) and one.call != "token"]
    assert [(one.call, one.attempts, one.status) for one in finished] == [("get_json", 5, 200)]


async def test_the_emulator_can_be_given_a_path_of_its_own() -> None:
    """A fault answers it; without one it is not found."""
    async with served(1) as (service, client):
        with pytest.raises(NotFoundError):
            await client.get_json(f"{PATH}/r-1")
        service.faults.add(Fault("body", body=b'{"a": 1}', path=f"{PATH}*", times=None))
        found = [await client.get_json(f"{PATH}/r-1", {"year": year}) for year in (2024, 2025)]
        assert found == [{"a": 1}, {"a": 1}]
        (row,) = (await client.get_json("/v1/income/applications"))["applications"]
    assert row["application_id"] == service.world.ids[0]


async def test_a_large_reply_is_read_where_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A large reply stops the event loop then, and is read all the same."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    text = "x" * 300_000
    answers = in_turn(reply(body=b'{"text": "%b"}' % text.encode()))
    async with ScriptedServer(answers) as server, IncomeClient(server.url, auth=BASIC) as client:
        assert await client.get_json(PATH) == {"text": text}
        monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", refuse)
        assert await client.get_json(PATH) == {"text": text}
