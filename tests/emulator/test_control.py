"""The call by which another process has an emulator fire a callback."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import BasicAuth, OAuth2ClientCredentials
from income_client.emulator import CallbackDelivery, CallbackTarget, Emulator, Fault
from income_client.emulator.control import CallbackOrder, read_order, written_order
from income_client.testing import JumpingClock
from tests.support.emulated_calls import basic_header, bearer_header, until
from tests.support.emulated_replies import a_service, ask
from tests.support.scripted_server import always, forever, reply, serving, with_tokens

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


async def test_an_order_fires_a_callback(session: aiohttp.ClientSession, service: Emulator) -> None:
    """It is answered with what became of the callback, whichever credentials came with it."""
    name = service.world.ids[0]
    async with serving(always(reply())) as server:
        service.callbacks = CallbackTarget(server.url)
        for headers in (basic_header(service), await bearer_header(session, service)):
            status, content = await order(
                session, service, {"application_id": name, "event_type": "extractions"}, headers
            )
            assert (status, content) == (
                200,
                {
                    "application_id": name,
                    "event_type": "extractions",
                    "attempts": [200],
                    "is_json": True,
                    "delivered": True,
                },
            )
    assert len(server.seen) == 2


async def test_an_order_may_change_the_application(
    session: aiohttp.ClientSession, service: Emulator
) -> None:
    """An update in an order is an update like any other; without it nothing changes."""
    name = service.world.ids[0]
    async with serving(always(reply())) as server:
        service.callbacks = CallbackTarget(server.url)
        service.advance(60)
        await order(session, service, {"application_id": name})
        assert service.world.updated_at(name) < service.now
        await order(session, service, {"application_id": name, "update": True})
        assert service.world.updated_at(name) == service.now


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ({"application_id": "nobody"}, 404),
        ({"application_id": 7}, 400),
        ({"update": "yes"}, 400),
        ({"url": "http://example.com/"}, 400),
        ({"username": "partner"}, 400),
        ({"username": "partner", "password": 7}, 400),
        ({"client_id": "partner", "client_secret": "x"}, 400),
        ({"auth": "partner"}, 400),
        ({"else": 1}, 400),
        ([], 400),
        (b"", 400),
        (b"{", 400),
    ],
)
async def test_a_bad_order_fires_nothing(
    session: aiohttp.ClientSession, service: Emulator, content: Any, status: int
) -> None:
    """An invalid order is 400, an unknown application 404."""
    async with serving(always(reply())) as server:
        service.callbacks = CallbackTarget(server.url)
        assert (await order(session, service, content))[0] == status
    assert server.seen == []


async def test_an_order_may_say_where_to_and_with_which_credentials(
    session: aiohttp.ClientSession, service: Emulator
) -> None:
    """Credentials replace those of the emulator; they never follow to another address."""
    basic = {"username": "partner", "password": "from-the-order"}
    sent = BasicAuth("partner", "from-the-order").authorization().reveal()
    usual = BasicAuth("usual", "secret")
    async with serving(always(reply())) as server, serving(with_tokens(always(reply()))) as other:
        service.callbacks = CallbackTarget(server.url, auth=usual)
        oauth2 = {"client_id": "a", "client_secret": "b", "token_url": f"{other.url}/token"}
        elsewhere = {"url": f"{other.url}/callbacks"}
        for content in ({}, basic, elsewhere, elsewhere | basic, elsewhere | oauth2):
            assert (await order(session, service, content))[0] == 200
        service.callbacks = None
        assert (await order(session, service, elsewhere | basic))[0] == 200
    assert [each.authorization for each in server.seen] == [usual.authorization().reveal(), sent]
    came = [each.authorization for each in other.seen if each.path == "/callbacks"]
    assert came == ["", sent, "Bearer token-1", sent]


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

    async def silent(*_: object) -> None:
        await forever()

    async with serving(silent) as server:
        service.callbacks = CallbackTarget(server.url)
        waiting = asyncio.create_task(order(session, service, {}))
        await until(lambda: len(server.seen) == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: len(service.requests) == 1)
    assert (service.requests[0].name, service.requests[0].status) == ("control", 0)


NAMES: Final = st.none() | st.text(st.characters(exclude_categories=["Cs"]))
AUTHS: Final = st.sampled_from(
    [None, BasicAuth("partner", "invented"), OAuth2ClientCredentials("partner", "invented")]
)


@given(application_id=NAMES, event_type=NAMES, update=st.booleans(), auth=AUTHS)
def test_an_order_is_read_as_it_was_written(
    application_id: str | None,
    event_type: str | None,
    update: bool,
    auth: BasicAuth | OAuth2ClientCredentials | None,
) -> None:
    """Everything in an order survives its way to another process."""
    order = CallbackOrder(
        application_id=application_id, event_type=event_type, update=update, auth=auth
    )
    assert read_order(written_order(order)) == order


@given(st.binary())
def test_reading_an_order_never_fails(body: bytes) -> None:
    """Anything but an order is None; an empty object is an order with all defaults."""
    assert read_order(body) in (None, CallbackOrder())
    assert read_order(b"{}") == CallbackOrder()


@given(
    application_id=NAMES,
    event_type=NAMES,
    attempts=st.lists(st.integers(100, 599) | st.sampled_from(["refused", "timeout"])),
    is_json=st.booleans(),
)
def test_a_delivery_is_read_as_it_was_written(
    application_id: str | None, event_type: str | None, attempts: list[int | str], is_json: bool
) -> None:
    """What became of a callback survives its way from another process."""
    delivery = CallbackDelivery(
        application_id=application_id,
        event_type=event_type,
        attempts=tuple(attempts),
        is_json=is_json,
    )
    assert CallbackDelivery.of_facts(delivery.facts()) == delivery
    assert delivery.delivered is (attempts[-1:] == [200])


@pytest.mark.parametrize(
    "facts",
    [{}, {"attempts": 200}, {"attempts": [None]}, {"attempts": [], "event_type": 1}],
)
def test_anything_else_is_not_a_delivery(facts: dict[str, Any]) -> None:
    """Something else than a delivery is not taken for one."""
    assert CallbackDelivery.of_facts(facts) is None
