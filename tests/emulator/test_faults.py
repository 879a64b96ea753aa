"""Faults: which request each falls on, how they are written in words, and what the wire carries."""

import asyncio
import re
from collections import Counter

import aiohttp
import pytest

from income_client.emulator import Emulator, Fault, Faults
from income_client.errors import ConfigurationError
from income_client.testing import JumpingClock, script
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
    faults = _added(Fault("reset", path="/v1/*/documents", method="GET", times=None))
    assert faults.take("GET", f"{APPLICATION}/documents") is not None
    assert faults.take("GET", APPLICATION) is None
    assert faults.take("POST", f"{APPLICATION}/documents") is None


def test_a_line_of_a_script_is_about_one_call() -> None:
    """Or about one application; ``any`` is neither about tokens nor about files."""
    faults = _added(
        *script("get_application(app-1): ok x2, 500 x2\nget_documents: 503; token: 401; any: 429")
    )
    assert _played(faults, f"{APPLICATION}0", 2) == [429, "ok"]
    assert _played(faults, f"{APPLICATION}/documents", 2) == [503, "ok"]
    assert _played(faults, APPLICATION, 5) == ["ok", "ok", 500, 500, "ok"]
    assert _played(faults, "/token", 2) == [401, "ok"]
    (expired,) = script("any: expired_token x2")
    assert (expired.status, expired.times) == (401, 2)
    assert "invalid_token" in expired.headers["WWW-Authenticate"]
    faults.add("reset x9")
    assert [*_played(faults, "/token", 2), *_played(faults, "/", 2)] == ["reset"] * 4


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("503 rate=20%", Fault("status", status=503, rate=0.2, times=None)),
        ("503 rate=100%", Fault("status", status=503, rate=1, times=None)),
        ("503 seconds=2", Fault("status", status=503, seconds=2, times=None)),
        ("503 rate=.5 x2", Fault("status", status=503, rate=0.5, times=2)),
        ("503 after=2", Fault("status", status=503, after=2, times=1)),
        ("file: cut keep=0 x3", Fault("cut", call="file", keep=0, times=3)),
        ("any: ok x2, cut times=all", Fault("cut", call="any", skip=2, times=None)),
        ("trickle interval=.5 seed=-3", Fault("trickle", interval=0.5, seed=-3)),
        ("429 retry-after=7", Fault("status", status=429, retry_after=7)),
        ("status retry_after=7", Fault("status", retry_after=7)),
        (
            "get_documents ( a:1, b ) : redirect status=302",
            Fault("redirect", status=302, call="get_documents", named="a:1, b"),
        ),
    ],
)
def test_a_fault_of_a_share_or_a_span_falls_on_all_requests(text: str, fault: Fault) -> None:
    """Unless it says how many; any other falls on one."""
    assert script(text) == (fault,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("get_aplication: 500", "no call get_aplication; did you mean get_application?"),
        ("get_application 500", "a colon follows the call: 'get_application: 503'"),
        ("get_application:", "no fault ''; there are"),
        ("get_application: 500 twice", "name=value or x3, not by 'twice'"),
        ("get_application: resett", "no fault 'resett'; did you mean reset?"),
        ("get_application: 999", "no fault '999'; there are statuses from 100 to 599, ok, expired"),
        ("get_application: reset retry-after=2", "retry_after goes with status, redirect, body"),
        ("500:0.05,cut:10%@file", "500 is a fault, not a call: write '500 rate=5%'"),
        ("cut:1%", "cut is a fault, not a call: write 'cut rate=5%' or 'file: cut rate=5%'"),
        ("any: 503 rte=20%", "no setting 'rte'; did you mean rate?"),
        ("any: 503 rate=often", "rate must be a share of the requests, such as 0.2 or 20%, not 'o"),
        ("any: 503 times=many", "times must be a number of requests, or all, not 'many'"),
        ("any: cut keep=1.5", "keep must be a number of bytes, not '1.5'"),
        ("any: 503 after=nan", "after must be a finite number, 0 or more, not nan"),
        ("any: 503 seconds=", "seconds must be a number of seconds, not ''"),
        ("any: 503 x0", "times must be a whole number, 1 or more, not 0"),
        ("any: 503 x2 times=3", "times is given twice: 503 x2 times=3"),
        ("any: 503 status=404", "status is given twice: 503 status=404"),
        ("any: ok rate=20%", "ok has no rate: only a number follows it, as in 'ok x3'"),
        ("any: ok times=all, 500", "times must be a whole number, 1 or more"),
        (f"any: 503 x{'9' * 5000}", "times must be a number of requests, or all, not '999"),
    ],
)
def test_a_script_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        script(text)


def test_an_outage_begins_and_ends() -> None:
    """The outage's time runs from the moment at which it is added."""
    clock = JumpingClock()
    faults = Faults(clock.monotonic)
    faults.add("any: 503 after=10 seconds=30")
    seen = []
    for _ in range(5):
        seen += _played(faults, APPLICATION, 1)
        clock.advance(10)
    assert seen == ["ok", 503, 503, 503, "ok"]


def test_a_flaky_service_fails_by_its_seed() -> None:
    """The same requests fail each time, whatever is asked between them."""
    paths = [f"/v1/income/applications/app-{number % 50}" for number in range(400)]

    def failed(order: list[str], seed: int) -> list[str]:
        faults = _added(*script(f"any: 503 rate=30% seed={seed}"))
        return sorted(path for path in order if faults.take("GET", path))

    assert failed(paths, 1) == failed(paths[::-1], 1) != failed(paths, 2)
    assert 60 < len(failed(paths, 1)) < 180


def test_shares_are_those_of_all_requests() -> None:
    """None falls where one before it does, though all have the same seed."""
    shares = "503 rate=50%; get_application: cut rate=0.3, 404 rate=20%; any: 500 rate=0"
    faults = _added(*script(shares))
    asked = 5_000
    met = Counter(
        str(each) for n in range(asked) for each in _played(faults, f"{APPLICATION}{n}", 1)
    )
    for name, share in (("503", 0.5), ("cut", 0.3), ("404", 0.2)):
        assert met[name] == pytest.approx(share * asked, rel=0.1)
    assert met.total() == met["503"] + met["cut"] + met["404"]
    assert set(_played(faults, "/token", 50)) == {"ok", 503}


async def test_a_status_comes_with_what_the_fault_says(
    session: aiohttp.ClientSession, service: Emulator
) -> None:
    service.faults.add(Fault("status", status=429, retry_after=7, body=b"{}"))
    async with session.get(service.url + LIST, headers=basic_header(service)) as reply:
        assert (reply.status, reply.headers["Retry-After"]) == (429, "7")
        assert "X-Request-Id" in reply.headers
        assert await reply.read() == b"{}"


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
