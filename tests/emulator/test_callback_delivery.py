"""Callbacks that the emulator fires at a server whose every answer is decided here."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from income_client import BasicAuth
from income_client.emulator import CallbackTarget, Emulator
from income_client.errors import ConfigurationError
from income_client.testing import JumpingClock
from tests.support.emulated_calls import until
from tests.support.scripted_server import (
    Answer,
    ScriptedServer,
    Seen,
    always,
    forever,
    reply,
    serving,
)

AUTH: Final = BasicAuth("partner", "invented-password")


def target_at(server: ScriptedServer, **options: Any) -> CallbackTarget:
    """Return a target there."""
    return CallbackTarget(f"{server.url}/callbacks", **{"auth": AUTH} | options)


async def test_it_sends_what_is_known_of_callbacks(service: Emulator) -> None:
    """A POST of JSON with the event and the application, and with the credentials."""
    async with serving(always(reply())) as server:
        service.callbacks = target_at(server)
        name = service.world.ids[3]
        delivery = await service.fire_callback(name)
    (seen,) = server.seen
    assert (seen.method, seen.path) == ("POST", "/callbacks")
    assert seen.authorization == AUTH.authorization().reveal()
    assert seen.headers["content-type"] == "application/json"
    number = service.world.number_of(name)
    assert number is not None
    assert json.loads(seen.body) == {
        "event_type": "income_calculations",
        "application_id": name,
        "application_reference_id": service.world.reference_of(number),
    }
    assert delivery.facts() == {
        "application_id": name,
        "event_type": "income_calculations",
        "attempts": [200],
        "is_json": True,
        "delivered": True,
    }


async def test_applications_have_their_turns(service: Emulator) -> None:
    """Where no application is named, each callback is about another one."""
    async with serving(always(reply())) as server:
        target = target_at(server)
        named = {
            (await service.fire_callback(target=target)).application_id
            for _ in range(len(service.world))
        }
    assert named == set(service.world.ids)
    assert service.callbacks is None


@pytest.mark.parametrize(
    ("payload", "sent"),
    [
        ({"event_type": "error", "more": [1]}, b'{"event_type":"error","more":[1]}'),
        ([1, "two"], b'[1,"two"]'),
        (b"not \xff JSON", b"not \xff JSON"),
        (b"", b""),
        (0, b"0"),
    ],
)
async def test_a_payload_can_be_anything(service: Emulator, payload: Any, sent: bytes) -> None:
    """Any JSON value, or any bytes, take the place of the usual payload."""
    async with serving(always(reply())) as server:
        delivery = await service.fire_callback(payload=payload, target=target_at(server))
    assert server.seen[0].body == sent
    assert delivery.application_id is None


async def test_an_update_comes_before_the_callback(service: Emulator) -> None:
    """By the time the callback is there, the application has changed."""
    name = service.world.ids[0]
    service.advance(60)
    updated: list[int] = []

    async def look(seen: Seen, writer: asyncio.StreamWriter) -> bytes:
        updated.append(service.world.updated_at(name))
        return reply()

    async with serving(look) as server:
        service.callbacks = target_at(server)
        await service.fire_callback(name)
        await service.fire_callback(name, update=True)
    assert updated[0] < updated[1] == service.now


async def test_it_sends_again_until_200() -> None:
    """Passing failures are followed by growing pauses and the same bytes, up to the 200."""
    clock = JumpingClock()
    answers = [reply(status) for status in (429, 500, 502, 503, 504, 200)]
    async with Emulator(5, clock=clock) as service, serving(always(*answers)) as server:
        delivery = await service.fire_callback(target=target_at(server))
    assert delivery.attempts == (429, 500, 502, 503, 504, 200)
    assert delivery.delivered
    assert clock.slept == [1, 2, 4, 8, 16]
    assert len({seen.body for seen in server.seen}) == 1


async def test_it_gives_up_after_five_times() -> None:
    """A sixth failure is the last; other failures, and other successes, are final at once."""
    async with Emulator(5, clock=JumpingClock()) as service:
        for status, attempts in ((503, 6), (400, 1), (307, 1), (202, 1), (401, 1)):
            answer = reply(status, Location="/elsewhere")
            async with serving(always(answer)) as server:
                delivery = await service.fire_callback(target=target_at(server))
            assert delivery.attempts == (status,) * attempts
            assert not delivery.delivered
            assert server.count("/callbacks") == len(server.seen) == attempts


async def test_retry_after_counts_where_asked_for() -> None:
    """A pause is lengthened by Retry-After if the target is said to honour it."""
    clock = JumpingClock()
    answers = always(reply(503, Retry_After="30"), reply())
    async with Emulator(5, clock=clock) as service, serving(answers) as server:
        await service.fire_callback(target=target_at(server, honours_retry_after=True))
    assert clock.slept == [30]


async def _silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
    await forever()


@pytest.mark.parametrize(
    ("answer", "attempts", "options"),
    [
        (always(None), ("dropped",), {}),
        (always(b"no HTTP at all\r\n\r\n"), ("unreadable",), {}),
        (_silent, ("timeout",), {"timeout": 0.2}),
        (always(b"HTTP/1.1 200 OK\r\nContent-Length: nine\r\n\r\n"), ("unreadable",), {}),
    ],
    ids=["dropped", "garbage", "silent", "length"],
)
async def test_missing_answers_have_names(
    answer: Answer, attempts: tuple[str, ...], options: dict[str, float]
) -> None:
    """What is no answer is named, and sent again where that is asked for."""
    async with Emulator(5, clock=JumpingClock()) as service, serving(answer) as server:
        target = target_at(server, **options)
        assert (await service.fire_callback(target=target)).attempts == attempts
        again = target_at(server, resends_unanswered=True, pauses=[1, 2], **options)
        assert (await service.fire_callback(target=again)).attempts == attempts * 3


async def test_nobody_there_is_refused(service: Emulator) -> None:
    """A port at which nobody listens is one attempt, named so."""
    async with serving(always(reply())) as server:
        target = target_at(server)
    delivery = await service.fire_callback(target=target)
    assert (delivery.attempts, delivery.is_json) == (("refused",), False)


@pytest.mark.parametrize(
    ("answer", "is_json"),
    [
        (reply(body=b'{"status":"OK"}'), True),
        (reply(body=b"null"), True),
        (reply(body=b"OK"), False),
        (reply(body=b""), False),
        (reply(body=b'"' + b"a" * 70_000 + b'"'), False),
        (reply(body=b"\x1f\x8b\x08\x00", Content_Encoding="gzip"), False),
    ],
    ids=["object", "null", "text", "empty", "large", "compressed"],
)
async def test_the_answer_must_be_json(service: Emulator, answer: bytes, is_json: bool) -> None:
    """A delivery says whether the answer was JSON, of which only a beginning is read."""
    async with serving(always(answer)) as server:
        delivery = await service.fire_callback(target=target_at(server))
    assert (delivery.delivered, delivery.is_json) == (True, is_json)


async def test_header_fields_can_be_changed_and_doubled(service: Emulator) -> None:
    """A field that is given takes the place of the usual one; as pairs it may stand twice."""
    raw: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raw.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(reply(Connection="close"))
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    service.callbacks = CallbackTarget(f"http://127.0.0.1:{port}/", auth=AUTH)
    async with server:
        await service.fire_callback(headers={"content-type": "text/plain", "X-More": "1"})
        await service.fire_callback(
            headers=[("Authorization", "Basic YQ=="), ("Authorization", "Basic Yg==")]
        )
    first, second = (head.lower() for head in raw)
    assert first.count(b"content-type:") == 1
    assert b"content-type: text/plain\r\n" in first
    assert b"x-more: 1\r\n" in first
    assert b"cookie" not in first
    assert second.count(b"authorization: basic y") == second.count(b"authorization") == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"application_id": "nobody"}, "no application"),
        ({"application_id": 7}, "application_id is a str"),
        ({"event_type": 7}, "event_type is a str"),
        ({"payload": object()}, "payload is bytes or what JSON can hold, not object"),
        ({"headers": {"X": "a\r\nY: b"}}, "no header field"),
        ({"headers": {"X Y": "a"}}, "no header field"),
        ({"target": None}, "no target"),
    ],
)
async def test_what_cannot_be_meant_is_refused(
    service: Emulator, wrong: dict[str, Any], said: str
) -> None:
    """A wrong argument is a configuration error before anything is sent or changed."""
    target = CallbackTarget("http://127.0.0.1:9/")
    options: dict[str, Any] = {"target": target, "update": True} | wrong
    before = [*map(service.world.updated_at, service.world.ids)]
    service.advance(60)
    with pytest.raises(ConfigurationError, match=said):
        await service.fire_callback(**options)
    assert [*map(service.world.updated_at, service.world.ids)] == before


async def test_several_at_once_are_fine(service: Emulator) -> None:
    """Callbacks that are fired together all arrive."""
    async with serving(always(reply())) as server:
        service.callbacks = target_at(server)
        deliveries = await asyncio.gather(*map(service.fire_callback, service.world.ids))
    assert all(delivery.delivered for delivery in deliveries)
    sent = {json.loads(seen.body)["application_id"] for seen in server.seen}
    assert sent == set(service.world.ids)


async def test_closing_ends_callbacks_under_way() -> None:
    """Who waits for a callback that closing ended is told so, and no task is left."""
    tasks = asyncio.all_tasks()
    async with serving(_silent) as server:
        async with Emulator(5) as service:
            target = target_at(server)
            waiting = [asyncio.create_task(service.fire_callback(target=target)) for _ in range(3)]
            await until(lambda: len(server.seen) == 3)
        assert [(await one).attempts for one in waiting] == [("closed",)] * 3
    assert asyncio.all_tasks() <= tasks


async def test_nothing_is_sent_once_closed() -> None:
    """A callback after closing is ``closed`` at once, until the emulator is started again."""
    async with serving(always(reply())) as server:
        service = Emulator(5, callbacks=target_at(server))
        async with service:
            pass
        delivery = await service.fire_callback()
        assert (delivery.attempts, delivery.delivered, server.seen) == (("closed",), False, [])
        async with service:
            assert (await service.fire_callback()).delivered


async def test_cancelling_leaves_nothing(service: Emulator) -> None:
    """A callback whose sender is cancelled is given up at once."""
    tasks = asyncio.all_tasks()
    async with serving(_silent) as server:
        waiting = asyncio.create_task(service.fire_callback(target=target_at(server)))
        await until(lambda: len(server.seen) == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert asyncio.all_tasks() <= tasks


async def test_the_machine_s_settings_do_not_count(
    service: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Proxies and netrc of the environment have no part in callbacks."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with serving(always(reply(Set_Cookie="a=b"))) as server:
        for _ in range(2):
            delivery = await service.fire_callback(target=target_at(server, auth=None))
            assert delivery.delivered
    assert not any({"authorization", "cookie"} & set(seen.headers) for seen in server.seen)
