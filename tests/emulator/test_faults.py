"""Faults: which request each falls on, how they are written in words, and what the wire carries."""

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.emulator import Emulator, Fault, FaultKind, Faults, ServiceRules
from income_client.emulator.fault_scripts import fault_shares
from income_client.errors import ConfigurationError
from income_client.testing import JumpingClock, flaky, outage, script, slow, throttled
from tests.support.emulated import LIST, basic_header, get_status, raw_reply
from tests.support.service import until

APPLICATION = "/v1/income/applications/app-1"


def _played(faults: Faults, path: str, times: int) -> list[int | str]:
    taken = (faults.take("GET", path) for _ in range(times))
    return ["ok" if each is None else each.status or each.kind.value for each in taken]


def _added(*faults: Fault) -> Faults:
    made = Faults()
    made.add(*faults)
    return made


def test_faults_are_used_up_in_order() -> None:
    """Each falls on as many requests as it says, after those that it skips; the first one first."""
    faults = _added(Fault("status", status=500, times=2), Fault("status", status=503))
    assert _played(faults, "/token", 4) == [500, 500, 503, "ok"]
    assert len(faults) == 0
    faults = _added(Fault("status", status=500, skip=2), Fault("status", status=503))
    assert _played(faults, "/token", 4) == [503, "ok", 500, "ok"]
    assert (faults.requests, faults.played) == (4, {"500": 1, "503": 1})
    faults.add(Fault("reset", times=None))
    assert _played(faults, "/token", 3) == ["reset"] * 3
    faults.clear()
    assert _played(faults, "/token", 1) == ["ok"]


def test_faults_match_path_and_method() -> None:
    """A fault falls only on requests whose path and method fit its patterns."""
    faults = _added(Fault("reset", path="/v1/*/documents", method="GET", times=None))
    assert faults.take("GET", f"{APPLICATION}/documents") is not None
    assert faults.take("GET", APPLICATION) is None
    assert faults.take("POST", f"{APPLICATION}/documents") is None


@pytest.mark.parametrize(
    ("make", "settings", "said"),
    [
        (Fault, {"kind": "slow"}, "FaultKind must be one of status, reset"),
        (Fault, {"times": 0}, "times must be a whole number, 1 or more"),
        (Fault, {"times": 1.5}, "times must be a whole number"),
        (Fault, {"skip": None}, "skip must be a whole number, 0 or more"),
        (Fault, {"path": None}, "path must be of type str"),
        (Fault, {"status": "503"}, "status must be a whole number"),
        (Fault, {"status": 99}, "status must be a status, 100 or more"),
        (Fault, {"headers": "Retry-After: 1"}, "headers must be of type Mapping"),
        (Fault, {"body": "{}"}, "body must be of type bytes"),
        (Fault, {"keep": -1}, "keep must be a whole number, 0 or more"),
        (Fault, {"interval": -1}, "interval must be a finite number, 0 or more"),
        (Fault, {"call": "get_document"}, "no call get_document; did you mean get_documents?"),
        (Fault, {"rate": 1.5}, "rate must be a share from 0 to 1"),
        (Fault, {"after": math.inf}, "after must be a finite number"),
        (outage, {"seconds": 1, "call": 503}, "call must be the name of a call"),
        (flaky, {"rate": 0.5, "seed": None}, "seed must be a whole number"),
        (throttled, {"retry_after": -5}, "retry_after must be a whole number, 0 or more"),
        (slow, {"seconds_a_byte": -1}, "interval must be a finite number, 0 or more"),
    ],
)
def test_an_invalid_fault_is_refused(
    make: Callable[..., Any], settings: dict[str, Any], said: str
) -> None:
    """Where it is made, and with what is allowed."""
    given = {"kind": "drop"} | settings if make is Fault else settings
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        make(**given)


def test_only_faults_can_be_added() -> None:
    """The name of a fault is refused where it is added."""
    wrong: Any
    for wrong in ("reset", FaultKind.RESET, None):
        with pytest.raises(ConfigurationError, match="a fault must be a Fault"):
            Faults().add(Fault("reset"), wrong)


@pytest.mark.parametrize(
    "knobs",
    [
        *({"order": "sideways"}, {"span_clamp": "both"}, {"future": "perhaps"}, {"max_span": 0}),
        *({"visibility_delay": -1}, {"default_span": -1}, {"url_lifetime": True}),
        *({"token_lifetime": 1.5}, {"token_lifetime": None}, {"url_signed_once": 1}),
        *({"file_bytes": 0}, {"clock_offset": "1"}, {"upper_closed": "no"}),
    ],
)
def test_invalid_rules_are_refused(knobs: dict[str, Any]) -> None:
    """Each field of the rules is checked."""
    with pytest.raises(ConfigurationError):
        ServiceRules(**knobs)


@given(st.lists(st.sampled_from(["ok", "500", "503", "429", "cut", "reset"]), min_size=1))
def test_steps_of_a_script_fall_on_requests_in_turn(steps: list[str]) -> None:
    """The first on the first, and whatever comes later is served as usual."""
    faults = _added(*script(f"get_application: {', '.join(steps)}"))
    meant = [int(step) if step.isdigit() else step for step in steps]
    assert _played(faults, APPLICATION, len(steps) + 2) == [*meant, "ok", "ok"]


def test_a_line_of_a_script_is_about_one_call() -> None:
    """Or about one application; ``any`` is neither about tokens nor about files."""
    faults = _added(
        *script("get_application(app-1): ok x2, 500 x2\nget_documents: 503; token: 401; any: 429")
    )
    assert _played(faults, f"{APPLICATION}0", 2) == [429, "ok"]
    assert _played(faults, f"{APPLICATION}/documents", 2) == [503, "ok"]
    assert _played(faults, APPLICATION, 5) == ["ok", "ok", 500, 500, "ok"]
    assert _played(faults, "/token", 2) == [401, "ok"]
    (fault,) = script("any: 500 retry-after=3")
    assert fault.headers == {"Retry-After": "3"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("get_aplication: 500", "no call get_aplication; did you mean get_application?"),
        ("get_application 500", "'call: step, step'"),
        ("get_application:", "'reset', not ''"),
        ("get_application: 500 twice", "not '500 twice'"),
        ("get_application: resett", "no fault resett; did you mean reset?"),
        ("get_application: 500 x2 retry-after=3", "such as '503 retry-after=2 x3' or 'reset'"),
        ("get_application: 999", "no fault 999; there are statuses from 100 to 599, ok, expired"),
        ("get_application: reset retry-after=2", "only a status has a retry-after"),
        (f"any: 503 x{'9' * 5000}", "a step of a script"),
    ],
)
def test_a_script_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    """The message says what would have been read."""
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        script(text)


def test_an_outage_begins_and_ends() -> None:
    """It counts from when it is added."""
    clock = JumpingClock()
    faults = Faults(clock.monotonic)
    faults.add(*outage(30, after=10))
    seen = []
    for _ in range(5):
        seen += _played(faults, APPLICATION, 1)
        clock.advance(10)
    assert seen == ["ok", 503, 503, 503, "ok"]


def test_a_flaky_service_fails_by_its_seed() -> None:
    """The same requests fail each time, whatever is asked between them."""
    paths = [f"/v1/income/applications/app-{number % 50}" for number in range(400)]

    def failed(order: list[str], seed: int) -> list[str]:
        faults = _added(*flaky(0.3, seed=seed))
        return sorted(path for path in order if faults.take("GET", path))

    assert failed(paths, 1) == failed(paths[::-1], 1) != failed(paths, 2)
    assert 60 < len(failed(paths, 1)) < 180


def test_shares_are_those_of_all_requests() -> None:
    """Though each fault sees only what those before it have let pass."""
    faults = _added(*fault_shares("503:50%, cut:0.3@application,404:20%@application, 500:0"))
    asked = 5_000
    met = Counter(
        str(each) for n in range(asked) for each in _played(faults, f"{APPLICATION}{n}", 1)
    )
    for name, share in (("503", 0.5), ("cut", 0.3), ("404", 0.2)):
        assert met[name] == pytest.approx(share * asked, rel=0.1)
    assert met.total() == met["503"] + met["cut"] + met["404"]
    assert set(_played(faults, "/token", 50)) == {"ok", 503}
    assert set(_played(faults, "/", 50)) == {"ok"}


async def test_status_fault(session: aiohttp.ClientSession, service: Emulator) -> None:
    """Any final status replaces the reply, with headers and body, as often as the fault says."""
    service.faults.add(Fault("status", status=429, headers={"Retry-After": "7"}, body=b"{}"))
    async with session.get(service.url + LIST, headers=basic_header(service)) as reply:
        assert (reply.status, reply.headers["Retry-After"]) == (429, "7")
        assert reply.headers["Date"] == "Tue, 30 Jun 2026 12:00:00 GMT"
        assert "X-Request-Id" in reply.headers
        assert await reply.read() == b"{}"
    assert await get_status(session, service) == 200
    assert [each.fault for each in service.requests] == ["status", None]
    for status in (204, 304, 302, 418, 599, 999):
        service.faults.add(Fault("status", status=status))
        url = service.url + LIST
        async with session.get(url, headers=basic_header(service), allow_redirects=False) as reply:
            assert reply.status == status


async def test_redirect_and_body_faults(session: aiohttp.ClientSession, service: Emulator) -> None:
    """A redirect leads elsewhere; a body fault gives any content with 200."""
    service.faults.add(
        Fault("redirect", location="http://127.0.0.1:9/", status=302),
        Fault("body", body=b"<html>", content_type="text/html"),
    )
    url = service.url + LIST
    async with session.get(url, headers=basic_header(service), allow_redirects=False) as reply:
        assert (reply.status, reply.headers["Location"]) == (302, "http://127.0.0.1:9/")
    async with session.get(url, headers=basic_header(service)) as reply:
        assert (reply.status, reply.content_type) == (200, "text/html")
        assert await reply.read() == b"<html>"


async def test_faults_on_the_wire(session: aiohttp.ClientSession, service: Emulator) -> None:
    """A reset is RST, a drop no byte, garbage no HTTP, a trickle the true reply byte by byte."""
    service.faults.add(Fault("reset"), Fault("drop"), Fault("trickle", interval=0.0))
    with pytest.raises(ConnectionResetError):
        await raw_reply(service)
    assert await raw_reply(service) == b""
    trickled = await raw_reply(service, f"{LIST}/nobody")
    assert trickled.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert b'{"error":"not_found"' in trickled
    service.faults.add(Fault("garbage"), Fault("garbage", body=b"HTTP/9 what\r\n\r\n"))
    for _ in range(2):
        with pytest.raises(aiohttp.ClientResponseError):
            await get_status(session, service)


async def test_cut_fault(session: aiohttp.ClientSession, service: Emulator) -> None:
    """A cut announces the whole length and sends a part of it."""
    service.faults.add(Fault("cut"), Fault("cut", keep=0), Fault("cut", path="*/nobody"))
    for keep in (None, 0):
        head, _, body = (await raw_reply(service)).partition(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        assert length is not None
        assert len(body) == (int(length[1]) // 2 if keep is None else keep)
    with pytest.raises(aiohttp.ClientPayloadError):
        await get_status(session, service, f"{LIST}/nobody")


async def test_close_ends_stalls_and_trickles() -> None:
    """Closing ends requests that would never be answered and leaves no task behind."""
    before = asyncio.all_tasks()
    async with Emulator(5) as service:
        service.faults.add(Fault("stall"), Fault("trickle", interval=3600))
        waiting = [asyncio.create_task(raw_reply(service)) for _ in range(2)]
        await until(lambda: len(service.requests) == 2)
        assert service.max_in_flight == 2
    assert await waiting[0] == b""
    assert len(await waiting[1]) == 1
    assert asyncio.all_tasks() == before


async def test_stalls_end_with_their_client(service: Emulator) -> None:
    """A stalled request ends with its client, and others are served."""
    service.faults.add(Fault("stall"))
    waiting = asyncio.create_task(raw_reply(service))
    await until(lambda: len(service.requests) == 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    service.faults.add(Fault("drop"))
    assert await raw_reply(service) == b""
    assert [each.status for each in service.requests] == [0, 0]
