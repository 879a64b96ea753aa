"""The call by which another process has an emulator fire a callback."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import pytest

from income_client.emulator import CallbackTarget, Emulator, Fault
from income_client.testing import JumpingClock
from tests.support.emulated import a_service, ask, basic_header
from tests.support.server import SILENT, ScriptedServer, in_turn, reply
from tests.support.service import until

CONTROL: Final = "/emulator/callbacks"


async def order(
    session: aiohttp.ClientSession,
    service: Emulator,
    content: Any,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any]:
    """Send an order; return the status and the content of the reply."""
    body = {"data": content} if isinstance(content, bytes) else {"json": content}
    sent = basic_header(service) if headers is None else headers
    async with session.post(service.url + CONTROL, headers=sent, **body) as answer:
        return answer.status, await answer.json()


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ({"application_id": "nobody"}, 404),
        ({"application_id": 7}, 400),
        ({"update": "yes"}, 400),
        ([], 400),
        (b"", 400),
        (b"{", 400),
    ],
)
async def test_a_bad_order_fires_nothing(
    session: aiohttp.ClientSession, service: Emulator, content: Any, status: int
) -> None:
    """An invalid order is 400, an unknown application 404."""
    async with ScriptedServer(in_turn(reply())) as server:
        service.callbacks = CallbackTarget(server.url)
        assert (await order(session, service, content))[0] == status
    assert server.requests == []


async def test_without_a_target_it_is_a_conflict(
    session: aiohttp.ClientSession, service: Emulator
) -> None:
    """An emulator that has nowhere to send callbacks to says so."""
    assert await order(session, service, {}) == (409, {"error": "no_callback_target"})


async def test_it_asks_for_the_credentials_of_the_api(
    session: aiohttp.ClientSession, service: Emulator
) -> None:
    """Without credentials it is 401, with another Host 421, from a browser 403, by GET 405."""
    assert (await order(session, service, {}, {}))[0] == 401
    foreign = basic_header(service) | {"Host": "example.com"}
    assert (await order(session, service, {}, foreign))[0] == 421
    page = basic_header(service) | {"Origin": "https://elsewhere.example"}
    assert (await order(session, service, {}, page))[0] == 403
    async with session.get(service.url + CONTROL, headers=basic_header(service)) as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    async with session.post(service.files_url + CONTROL, headers=basic_header(service)) as answer:
        assert answer.status == 405
    assert {each.name for each in service.requests} == {"control"}
    assert [each.status for each in service.requests] == [401, 421, 403, 405, 405]


async def test_it_is_no_call_of_the_service(session: aiohttp.ClientSession) -> None:
    """Faults and latency do not fall on it, it is not counted, and the service as such has none."""
    clock = JumpingClock()
    async with Emulator(5, latency=3, clock=clock) as service:
        service.faults.add(Fault("status", times=None))
        assert (await order(session, service, {}))[0] == 409
        assert (service.max_in_flight, service.token_requests, clock.slept) == (0, 0, [])
        (recorded,) = service.requests
    assert (recorded.name, recorded.status, recorded.authorized) == ("control", 409, True)
    assert ask(a_service(10), CONTROL).status == 404


async def test_who_goes_away_gives_up_the_callback(
    session: aiohttp.ClientSession, service: Emulator
) -> None:
    """An order whose sender hangs up is remembered without a status, and no task is left."""
    async with ScriptedServer(in_turn(SILENT)) as server:
        service.callbacks = CallbackTarget(server.url)
        waiting = asyncio.create_task(order(session, service, {}))
        await until(lambda: len(server.requests) == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: len(service.requests) == 1)
    assert (service.requests[0].name, service.requests[0].status) == ("control", 0)
