"""Callbacks that the emulator fires at a server whose every answer is decided here."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import pytest

from income_client import BasicAuth, OAuth2ClientCredentials
from income_client.emulator import CallbackTarget, Emulator
from income_client.errors import ConfigurationError
from income_client.testing import JumpingClock
from tests.support.server import (
    HUNG_UP,
    SILENT,
    Answer,
    Reply,
    Request,
    ScriptedServer,
    in_turn,
    reply,
    token_reply,
    token_rules,
)
from tests.support.service import until

URL: Final = "http://127.0.0.1:9000/callbacks"
BASIC: Final = BasicAuth("partner", "invented-password")


OAUTH2: Final = OAuth2ClientCredentials("callback-client", "invented-secret")


def target_at(server: ScriptedServer, **options: Any) -> CallbackTarget:
    """Return a target there, with Basic credentials."""
    return CallbackTarget(f"{server.url}/callbacks", **{"auth": BASIC} | options)


def token_target_at(server: ScriptedServer, **options: Any) -> CallbackTarget:
    """Return a target there, and a token endpoint beside it."""
    return target_at(server, auth=OAUTH2, token_url=f"{server.url}/token", **options)


def carried(server: ScriptedServer) -> list[str]:
    """Return the Authorization headers of the callbacks that came."""
    return [request.authorization for request in server.requests if request.path == "/callbacks"]


async def test_it_sends_what_is_known_of_callbacks(service: Emulator) -> None:
    """A POST of JSON with the credentials; where asked for, the application is updated before."""
    name = service.world.ids[3]
    service.advance(60)
    updated: list[int] = []

    def look(_: Request) -> Reply:
        updated.append(service.world.updated_at(name))
        return reply()

    async with ScriptedServer(look) as server:
        service.callbacks = target_at(server)
        delivery = await service.fire_callback(name)
        await service.fire_callback(name, update=True)
    assert updated[0] < updated[1] == service.now
    request, _ = server.requests
    assert (request.method, request.path) == ("POST", "/callbacks")
    assert request.authorization == BASIC.authorization().reveal()
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.body) == {
        "event_type": "income_calculations",
        "application_id": name,
        "application_reference_id": "LOAN-00000003",
    }
    assert (delivery.application_id, delivery.event_type) == (name, "income_calculations")
    assert (delivery.attempts, delivery.is_json, delivery.delivered) == ((200,), True, True)


FINAL: Final = (202, 301, 307, 400, 401, 404, 408, 413, 501, 505)
PAUSES: Final = [1, 2, 4, 8, 16]
HONOURING: Final = {"honours_retry_after": True}
DATE: Final = "Sat, 21 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("options", "retry_after", "statuses", "slept"),
    [
        ({}, None, (429, 500, 502, 503, 504, 200), PAUSES),
        ({}, None, (503,) * 6, PAUSES),
        *(({}, None, (status,), []) for status in FINAL),
        ({}, "30", (503, 200), [1]),
        ({"pauses": [3]}, "30", (503, 200), [3]),
        (HONOURING, "30", (503, 200), [30]),
        *((HONOURING, text, (503, 200), [1]) for text in ("0", "1.5", "-9", "1" * 10, DATE)),
    ],
)
async def test_temporary_failures_are_sent_again(
    options: dict[str, Any], retry_after: str | None, statuses: tuple[int, ...], slept: list[float]
) -> None:
    """The same bytes up to five times more, after growing pauses; all else is final at once.

    Retry-After in seconds lengthens a pause where it is honoured.
    """
    clock = JumpingClock()
    answers = in_turn(
        *(reply(status, Location="/elsewhere", Retry_After=retry_after) for status in statuses)
    )
    async with Emulator(5, clock=clock) as service, ScriptedServer(answers) as server:
        delivery = await service.fire_callback(target=target_at(server, **options))
    assert (delivery.attempts, clock.slept) == (statuses, slept)
    assert delivery.delivered is (statuses[-1] == 200)
    assert {(request.path, request.body) for request in server.requests} == {
        ("/callbacks", server.requests[0].body)
    }
    assert len(server.requests) == len(statuses)


@pytest.mark.parametrize(
    ("answer", "attempts", "options"),
    [
        (in_turn(HUNG_UP), ("dropped",), {}),
        (in_turn(Reply(raw=b"no HTTP at all\r\n\r\n")), ("unreadable",), {}),
        (in_turn(SILENT), ("timeout",), {"timeout": 0.05}),
        (in_turn(reply(Content_Length="nine")), ("unreadable",), {}),
    ],
    ids=["dropped", "garbage", "silent", "length"],
)
async def test_missing_answers_have_names(
    answer: Answer, attempts: tuple[str, ...], options: dict[str, float]
) -> None:
    """A missing answer is named, and the callback sent again where that is asked for."""
    async with Emulator(5, clock=JumpingClock()) as service:
        async with ScriptedServer(answer) as server:
            target = target_at(server, **options)
            assert (await service.fire_callback(target=target)).attempts == attempts
            again = target_at(server, resends_unanswered=True, pauses=[1, 2], **options)
            assert (await service.fire_callback(target=again)).attempts == attempts * 3
        delivery = await service.fire_callback(target=target)
    assert (delivery.attempts, delivery.is_json) == (("refused",), False)


@pytest.mark.parametrize(
    ("answer", "is_json"),
    [
        *((reply(body=body), True) for body in (b'{"status":"OK"}', b"null")),
        *((reply(body=body), False) for body in (b"OK", b"", b'"' + b"a" * 70_000 + b'"')),
        (reply(body=b"\x1f\x8b\x08\x00", Content_Encoding="gzip"), False),
    ],
    ids=["object", "null", "text", "empty", "large", "compressed"],
)
async def test_the_answer_must_be_json(service: Emulator, answer: Reply, is_json: bool) -> None:
    """A delivery says whether the answer was JSON, of which only a beginning is read."""
    async with ScriptedServer(in_turn(answer)) as server:
        delivery = await service.fire_callback(target=target_at(server))
    assert (delivery.delivered, delivery.is_json) == (True, is_json)


async def test_payload_and_header_fields_can_be_changed() -> None:
    """A field takes the place of the usual one; as pairs a name may come twice."""
    doubled = [("Authorization", "Basic YQ=="), ("Authorization", "Basic Yg==")]
    async with Emulator(0) as service, ScriptedServer(in_turn(reply())) as server:
        service.callbacks = target_at(server)
        await service.fire_callback(headers={"content-type": "text/plain", "X-More": "1"})
        await service.fire_callback(event_type=None, headers=doubled)
        delivery = await service.fire_callback(payload={"event_type": "error", "more": [1]})
        await service.fire_callback(payload=0)
    first, second = (request.head.lower() for request in server.requests[:2])
    assert first.count(b"content-type:") == 1
    assert b"content-type: text/plain\r\n" in first
    assert b"x-more: 1\r\n" in first
    assert second.count(b"authorization: basic y") == second.count(b"authorization") == 2
    sent = [request.body for request in server.requests[1:]]
    assert sent == [b"{}", b'{"event_type":"error","more":[1]}', b"0"]
    assert delivery.application_id is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"application_id": "nobody"}, "no application"),
        ({"application_id": 7}, "application_id must be a str"),
        ({"event_type": 7}, "event_type must be a str"),
        ({"event_type": "\udcff"}, "event_type must be a str without surrogates"),
        ({"payload": object()}, "payload must be bytes or what JSON can hold"),
        ({"headers": {"X": "a\r\nY: b"}}, "header fields"),
        ({"headers": {"X Y": "a"}}, "header fields"),
        ({"target": None}, "nowhere to send"),
    ],
)
async def test_invalid_arguments_are_refused(
    service: Emulator, wrong: dict[str, Any], said: str
) -> None:
    options: dict[str, Any] = {"target": CallbackTarget(URL), "update": True} | wrong
    before = [*map(service.world.updated_at, service.world.ids)]
    service.advance(60)
    with pytest.raises(ConfigurationError, match=said):
        await service.fire_callback(**options)
    assert [*map(service.world.updated_at, service.world.ids)] == before


async def test_closing_ends_callbacks() -> None:
    """A callback in flight becomes ``closed``, and so do later ones until the next start."""
    tasks = asyncio.all_tasks()
    async with ScriptedServer(in_turn(SILENT)) as server:
        service = Emulator(5, callbacks=target_at(server))
        async with service:
            waiting = [asyncio.create_task(service.fire_callback()) for _ in range(3)]
            await until(lambda: len(server.requests) == 3)
        assert [(await one).attempts for one in waiting] == [("closed",)] * 3
        delivery = await service.fire_callback()
        assert (delivery.attempts, delivery.delivered) == (("closed",), False)
        assert len(server.requests) == 3
    async with service, ScriptedServer(in_turn(reply())) as server:
        assert (await service.fire_callback(target=target_at(server))).delivered
    assert asyncio.all_tasks() <= tasks


async def test_the_environment_does_not_count(
    service: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Proxies and netrc have no part in callbacks."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with ScriptedServer(in_turn(reply())) as server:
        delivery = await service.fire_callback(target=target_at(server, auth=None))
    assert delivery.delivered
    assert carried(server) == [""]


async def test_a_token_is_cached_for_its_life_and_its_target() -> None:
    """One token serves many callbacks, at once and later, and is never sent to another endpoint."""
    clock = JumpingClock()
    async with (
        Emulator(5, clock=clock) as service,
        ScriptedServer(token_rules(in_turn(reply()), lifetime=100)) as server,
        ScriptedServer(token_rules(in_turn(reply()))) as other,
    ):
        service.callbacks = token_target_at(server)
        await asyncio.gather(*map(service.fire_callback, service.world.ids))
        await service.fire_callback(target=token_target_at(other))
        for passed in (0, 99, 1):
            clock.advance(passed)
            await service.fire_callback()
    assert carried(server) == ["Bearer token-1"] * 7 + ["Bearer token-2"]
    assert (server.token_requests, other.token_requests) == (2, 1)
    request = server.requests[0]
    assert request.authorization == OAUTH2.authorization().reveal()
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert parse_qs(request.body.decode()) == {"grant_type": ["client_credentials"]}


@pytest.mark.parametrize(
    ("answers", "attempts", "slept", "renews"),
    [
        ([401, 200], (401, 200), [], True),
        ([401], (401, 401), [], True),
        ([503, 401, 503, 200], (503, 401, 503, 200), [1, 2], True),
        ([401, 200], (401,), [], False),
    ],
)
async def test_a_refused_token_is_renewed_once(
    answers: list[int], attempts: tuple[int, ...], slept: list[float], *, renews: bool
) -> None:
    """A 401 leads to one new token and one more attempt without a pause, if the target says so."""
    clock = JumpingClock()
    replies = token_rules(in_turn(*map(reply, answers)))
    async with Emulator(5, clock=clock) as service, ScriptedServer(replies) as server:
        target = token_target_at(server, renews_on_401=renews)
        delivery = await service.fire_callback(target=target)
    assert (delivery.attempts, clock.slept) == (attempts, slept)
    assert server.token_requests == 1 + renews


UNREADABLE: Final = {
    "text": reply(body=b"no JSON"),
    "list": reply(body=b"[]"),
    "empty": token_reply(""),
    "words": token_reply("two words"),
    "lines": token_reply("line\r\nX: y"),
    "type": token_reply(token_type="mac"),
    "life": token_reply(expires_in="3600"),
}


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        pytest.param(reply(401), "token_401", id="401"),
        pytest.param(reply(302, Location="/callbacks"), "token_302", id="302"),
        pytest.param(HUNG_UP, "token_dropped", id="dropped"),
        *(pytest.param(one, "token_unreadable", id=name) for name, one in UNREADABLE.items()),
    ],
)
async def test_without_a_token_nothing_is_sent(
    service: Emulator, answer: Reply, fault: str
) -> None:
    """The attempt has an outcome of its own, and the endpoint receives no request."""
    async with ScriptedServer(in_turn(answer)) as server:
        delivery = await service.fire_callback(target=token_target_at(server))
    assert delivery.attempts == (fault,)
    assert carried(server) == []
