"""Tokens are read strictly, and a shared store saves requests: it may fail, hang and be slow."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

import pytest
from attrs import define, field

from income_client import IncomeClient
from income_client.clock import Clock
from income_client.emulator import Emulator
from income_client.errors import AuthenticationError, IncomeClientError, TokenError
from income_client.http.endpoints import Response
from income_client.http.tokens import (
    StoredToken,
    Token,
    TokenCache,
    from_stored,
    read_token,
    to_stored,
)
from income_client.settings import Secret, Timeouts
from income_client.testing import JumpingClock
from tests.support.clients import call, playing
from tests.support.loop_time import pass_time, skipped_waits
from tests.support.server import in_turn, reply, token_rules, turns
from tests.support.tokens import NOON, Shelf, Shop, shared, text

GOOD: Final = {"access_token": "abc.def.S3CRET", "token_type": "Bearer", "expires_in": 3600}


# A reply of the token endpoint


def answered(payload: Any, status: int = 200) -> Response:
    headers = {"content-type": "text/html", "retry-after": "7"}
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return Response(status=status, headers=headers, body=body)


def failure(response: Response, cls: type[IncomeClientError]) -> IncomeClientError:
    with pytest.raises(IncomeClientError) as caught:
        read_token(response, sent_at=0)
    assert type(caught.value) is cls
    return caught.value


def test_a_reply_becomes_a_token() -> None:
    """The life begins when the request is sent; a mark before the JSON does no harm."""
    reply = answered(b"\xef\xbb\xbf" + json.dumps(GOOD | {"token_type": "bEARER"}).encode())
    found = read_token(reply, sent_at=5.0)
    assert found.authorization == Secret("Bearer abc.def.S3CRET")
    assert (found.obtained_at, found.lifetime) == (5.0, 3600.0)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        (
            "access_token",
            [None, "", " ", "a b", "a\r\nX: y", "S3CRET\xe9", "S3CRET\x00", 7, ["a"], "a" * 16385],
        ),
        ("token_type", [None, "", "mac", "S3CRET", 1, ["Bearer"], "Bearer "]),
        ("expires_in", [None, 0, -1, True, "3600", 3600.0, 1e400, 10**10, 2**63, [3600]]),
    ],
)
def test_a_field_that_is_wrong_is_named_and_not_shown(field: str, values: list[Any]) -> None:
    for value in values:
        error = failure(answered(GOOD | {field: value}), TokenError)
        assert error.status == 200
        assert not error.retryable or value == 1e400
        assert field in str(error) or value == 1e400
        assert "S3CRET" not in str(error) + repr(error)
    missing = {name: value for name, value in GOOD.items() if name != field}
    assert field in str(failure(answered(missing), TokenError))


@pytest.mark.parametrize("body", [b"", b"<html>S3CRET", b'{"access_token": "S3C', b"\xff"])
def test_a_reply_that_is_not_json_can_be_retried(body: bytes) -> None:
    """A page of some proxy, or a body cut short, may be gone the next time."""
    error = failure(answered(body), TokenError)
    assert error.retryable
    assert error.message == f"token: text/html, {len(body)} bytes instead of JSON"


TWICE: Final = b'{"access_token":"a","access_token":"b","token_type":"Bearer","expires_in":9}'


@pytest.mark.parametrize("payload", [None, [], "abc", 1, TWICE])
def test_whole_json_of_another_shape_is_not_retried(payload: Any) -> None:
    """Nor is a reply that says two things."""
    error = failure(answered(payload), TokenError)
    assert not error.retryable
    assert ("twice" in error.message) is (payload is TWICE)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "token: 400 Bad Request"),
        (401, "token: 401 Unauthorized, the client credentials were refused"),
    ],
)
def test_refused_credentials_are_said_so_and_not_retried(status: int, message: str) -> None:
    error = failure(answered({"error": "invalid_client"}, status), AuthenticationError)
    assert (error.status, error.retryable, error.message) == (status, False, message)


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(403, False), (404, False), (307, False), (204, False), (408, True), (429, True), (503, True)],
)
def test_another_status_is_a_token_error(status: int, retryable: bool) -> None:
    """Whether it can be retried is as for any call."""
    error = failure(answered(GOOD, status), TokenError)
    assert (error.status, error.retryable, error.retry_after) == (status, retryable, 7.0)


# The form in which a token is stored


def test_a_stored_token_keeps_its_end() -> None:
    some = Token(authorization=Secret("Bearer t"), obtained_at=100, lifetime=600)
    stored = to_stored(some, now=150, wall_time=NOON)
    assert stored.access_token == Secret("t")
    assert stored.expires_at == NOON + timedelta(seconds=550)
    back = from_stored(stored, now=7000, wall_time=NOON + timedelta(seconds=50))
    assert back.authorization == some.authorization
    assert (back.obtained_at, back.lifetime) == (6900, 600)


def test_a_stored_token_lasts_no_longer_than_it_was_given_for() -> None:
    """A clock that was set back does not lengthen a token's life."""
    stored = StoredToken(access_token=Secret("t"), expires_at=NOON + timedelta(days=9), lifetime=60)
    assert from_stored(stored, now=500, wall_time=NOON).obtained_at == 500
    assert StoredToken(access_token="t", expires_at=NOON).lifetime == 3600


# A store that many processes share


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
def shop(clock: JumpingClock) -> Shop:
    return Shop(clock)


async def test_a_refused_token_is_not_taken_from_the_store(shop: Shop, clock: JumpingClock) -> None:
    """What one received, another takes from there, unless it was refused."""
    shelf = Shelf()
    first, second = shared(shop, clock, shelf), shared(shop, clock, shelf)
    tokens = [await first.get()]
    await turns(10)
    tokens.append(await second.get())
    assert [text(token) for token in tokens] == ["t1", "t1"]
    assert (shop.asked, shelf.saved) == (1, 1)
    for cache, token in zip((first, second), tokens, strict=True):
        cache.invalidate(token)
    assert text(await first.get()) == "t2"
    await turns(10)
    assert text(await second.get()) == "t2"
    assert shop.asked == 2


async def test_a_refused_token_of_another_process_is_replaced_as_well() -> None:
    """After a revocation of all tokens, the call succeeds with a new one."""
    ends = datetime.now(UTC) + timedelta(hours=1)
    revoked = [StoredToken(access_token=Secret(text), expires_at=ends) for text in ("a", "b")]

    class Circulating(Shelf):
        async def load(self) -> StoredToken | None:
            return revoked.pop(0) if len(revoked) > 1 else revoked[0]

    async with (
        Emulator(3) as service,
        IncomeClient(service.url, auth=service.oauth2, token_store=Circulating()) as client,
    ):
        assert (await client.get_application_page(limit=3)).applications
        calls = [request.name for request in service.requests]
    assert calls == ["list_applications"] * 2 + ["token", "list_applications"]


@pytest.mark.parametrize(("seconds", "requests"), [(3600, 0), (200, 0), (5, 1), (-10, 1)])
async def test_a_stored_token_is_used_while_it_serves(
    shop: Shop, clock: JumpingClock, seconds: float, requests: int
) -> None:
    """A token that is over, or nearly so, is replaced; a stale one is better than waiting."""
    stored = StoredToken(access_token=Secret("s"), expires_at=NOON + timedelta(seconds=seconds))
    await shared(shop, clock, Shelf(stored)).get()
    assert shop.asked == requests


async def test_early_renewal_takes_a_fresh_token_of_others(shop: Shop, clock: JumpingClock) -> None:
    shelf = Shelf()
    cache = shared(shop, clock, shelf)
    await cache.get()
    clock.advance(3400)
    shelf.stored = StoredToken(access_token=Secret("s"), expires_at=NOON + timedelta(hours=1.9))
    assert text(cache.current()) == "t1"
    await turns(10)
    assert text(cache.current()) == "s"
    assert shop.asked == 1


@pytest.mark.parametrize(
    ("fault", "is_claimed"),
    [
        (OSError("S3CRET"), False),
        (KeyError("S3CRET"), True),
        (TimeoutError("S3CRET"), False),
    ],
)
async def test_a_failing_store_never_breaks_a_call(
    shop: Shop,
    clock: JumpingClock,
    fault: Exception,
    is_claimed: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is warned about by type only, and done without."""
    shelf = ClaimedShelf(clock) if is_claimed else Shelf()
    shelf.fault = fault
    assert text(await shared(shop, clock, shelf).get()) == "t1"
    await turns(10)
    assert [line.levelname for line in caplog.records] == ["WARNING"] * (2 + is_claimed)
    assert ("the token could not be claimed" in caplog.text) is is_claimed
    assert type(fault).__name__ in caplog.text
    assert "S3CRET" not in caplog.text


async def test_a_store_that_gives_something_else_is_done_without(
    shop: Shop, clock: JumpingClock, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = Shelf("S3CRET")  # type: ignore[arg-type]
    assert text(await shared(shop, clock, shelf).get()) == "t1"
    await turns(10)
    assert "WARNING" in [line.levelname for line in caplog.records]
    assert "S3CRET" not in caplog.text


async def test_loading_leaves_a_short_deadline_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a call's time, a store that hangs takes no more than a part."""

    class Abyss(Shelf):
        async def load(self) -> NoReturn:
            pass_time(30)
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr("income_client.http.tokens._STORE_SECONDS", 1000)
    answer = token_rules(in_turn(reply(body=b"fine")))
    options: dict[str, Any] = {"token_store": Abyss(), "timeouts": Timeouts(deadline=100)}
    async with playing(answer, **options) as (session, _, _):
        assert await call(session) == b"fine"


class Snail(Shelf):
    """Saves when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = asyncio.Event()
        self.began = 0

    async def save(self, token: StoredToken) -> None:
        self.began += 1
        await self.let.wait()
        await super().save(token)


async def test_nobody_waits_for_the_saving(shop: Shop, clock: JumpingClock) -> None:
    """The token serves at once; closing ends a saving that hangs."""
    shelf = Snail()
    cache = shared(shop, clock, shelf)
    async with asyncio.timeout(2):
        assert text(await cache.get()) == "t1"
    await turns(10)
    assert (shelf.began, shelf.saved) == (1, 0)
    await cache.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert shelf.saved == 0


async def test_a_token_refused_while_it_is_saved_is_not_given_out(
    shop: Shop, clock: JumpingClock
) -> None:
    """A new one is requested, and it is the one that stays in the store."""
    shelf = Snail()
    cache = shared(shop, clock, shelf)
    token = await cache.get()
    await turns(10)
    cache.invalidate(token)
    assert text(await cache.get()) == "t2"
    shelf.let.set()
    await turns(10)
    assert shelf.saved == 2
    assert shelf.stored is not None
    assert shelf.stored.access_token == Secret("t2")


# A store by which one of many processes renews the token


class ClaimedShelf(Shelf):
    """Can be claimed until something is saved; answers may take seconds of the loop's time."""

    def __init__(self, clock: Clock, seconds: float = 0.0) -> None:
        super().__init__()
        self.clock = clock
        self.seconds = seconds
        self.claimed_at = -1e9

    @contextlib.asynccontextmanager
    async def _answering(self) -> AsyncIterator[None]:
        if self.seconds:
            await asyncio.sleep(self.seconds / 2)
        yield  # what is done is done in the middle
        if self.seconds:
            await asyncio.sleep(self.seconds / 2)

    async def load(self) -> StoredToken | None:
        async with self._answering():
            return await super().load()

    async def claim(self, seconds: float) -> bool:
        async with self._answering():
            self._fail()
            now = self.clock.monotonic()
            is_free = now - self.claimed_at >= seconds
            self.claimed_at = now if is_free else self.claimed_at
            return is_free

    async def save(self, token: StoredToken) -> None:
        async with self._answering():
            await super().save(token)
            self.claimed_at = -1e9


async def test_one_of_many_processes_renews(shop: Shop, clock: JumpingClock) -> None:
    """At their start, before each expiry, and after the service has refused it for all."""
    shelf = ClaimedShelf(clock)
    caches = [shared(shop, clock, shelf) for _ in range(8)]
    for life in range(1, 6):
        shop.opened.clear()
        waiting = [asyncio.create_task(cache.get()) for cache in caches]
        await turns(10)
        shop.opened.set()
        tokens = await asyncio.gather(*waiting)
        assert {text(token) for token in tokens} == {f"t{life}"}
        assert shop.asked == life
        if life % 2:
            clock.advance(3600)
            continue
        for cache, token in zip(caches, tokens, strict=True):
            cache.invalidate(token)
    for cache in caches:
        await cache.aclose()


async def test_a_process_that_ends_while_it_renews_is_not_waited_for_long(
    shop: Shop, clock: JumpingClock
) -> None:
    shelf = ClaimedShelf(clock)
    assert await shelf.claim(5)
    began = clock.monotonic()
    assert text(await shared(shop, clock, shelf).get()) == "t1"
    assert 5 <= clock.monotonic() - began < 6


async def test_a_claim_that_turns_out_to_be_needless_is_ended(
    shop: Shop, clock: JumpingClock
) -> None:
    """If another has renewed it just before the claim, nobody waits for a claim at its end."""

    class LateShelf(ClaimedShelf):
        async def claim(self, seconds: float) -> bool:
            ends = NOON + timedelta(seconds=60)
            self.stored = StoredToken(access_token=Secret("s"), expires_at=ends, lifetime=60)
            return await super().claim(seconds)

    shelf = LateShelf(clock)
    assert text(await shared(shop, clock, shelf).get()) == "s"
    await turns(10)
    assert await shelf.claim(5)


@pytest.mark.parametrize("hours", [-1, 1, -24, 24])
async def test_a_wrong_time_of_day_only_costs_token_requests(
    shop: Shop, clock: JumpingClock, hours: int
) -> None:
    """A process whose clock differs from the others' still gets tokens that are accepted."""
    shelf = ClaimedShelf(clock)
    caches = [shared(shop, clock, shelf), shared(shop, clock, shelf, timedelta(hours=hours))]
    ends: dict[str, float] = {}
    for _ in range(60):
        for cache in caches:
            for is_last in (False, True):
                token = await cache.get()
                if clock.monotonic() < ends.setdefault(text(token), clock.monotonic() + 3600):
                    break
                assert not is_last
                cache.invalidate(token)
            await turns(10)
        clock.advance(600)
    assert shop.asked <= 2 * 12


# A store that is slow

LIFETIME: Final = 8.0
SECONDS: Final = 150.0


@define
class Service:
    """Accepts the newest token only, until it expires."""

    shop: Shop
    ends: dict[str, float] = field(factory=dict)
    calls: int = 0
    refused: int = 0

    async def request(self) -> Token:
        await asyncio.sleep(0.05)
        token = await self.shop.request()
        self.ends = {text(token): self.shop.clock.monotonic() + token.lifetime}
        return token

    async def be_called(self, cache: TokenCache) -> None:
        """Take calls of one process, each of which is repeated once after a 401."""
        now = self.shop.clock.monotonic
        until = now() + SECONDS
        while now() < until:
            self.calls += 1
            for is_last in (False, True):
                token = await cache.get()
                await asyncio.sleep(0.05)
                if now() < self.ends.get(text(token), 0.0):
                    break
                cache.invalidate(token)
                self.refused += is_last
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("seconds", [0.05, 0.5, 1.3, 3.0])
async def test_no_call_fails_because_the_store_is_slow(
    seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Each process waits for it, and says once that it is slow."""
    with skipped_waits() as clock:
        service, shelf = Service(Shop(clock, LIFETIME)), ClaimedShelf(clock, seconds)
        caches = [shared(service, clock, shelf) for _ in range(4)]
        await asyncio.gather(*map(service.be_called, caches))
        for cache in caches:
            await cache.aclose()
    assert service.calls > 500
    assert service.refused == 0
    assert service.shop.asked < 1.5 * SECONDS / (LIFETIME * 3 / 4)
    warnings = [line.getMessage() for line in caplog.records]
    assert len(warnings) == (4 if seconds > 1 else 0)
    assert all("token store is slow" in warning for warning in warnings)


async def test_a_store_that_does_not_answer_is_done_without_for_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One call waits ten seconds for it, and not each that needs a token."""
    with skipped_waits() as clock:
        cache = shared(Service(Shop(clock, LIFETIME)), clock, ClaimedShelf(clock, 3600.0))
        waits = []
        for _ in range(9):
            began = clock.monotonic()
            await cache.get()
            waits.append(round(clock.monotonic() - began))
            await asyncio.sleep(LIFETIME)
        await cache.aclose()
    assert waits == [10, *[0] * 7, 10]
    assert "shares none for 60 s" in caplog.text
