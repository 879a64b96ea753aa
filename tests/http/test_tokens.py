"""Tokens are read strictly, and a shared store saves requests: it may fail, hang and be slow."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

import pytest
from attrs import evolve

from income_client import IncomeClient
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
from income_client.system.clock import Clock
from income_client.testing import JumpingClock
from tests.support.clients import Shelf, call, playing
from tests.support.clocks import ManualClock, stay_silent
from tests.support.server import in_turn, reply, token_rules, turns

NOON: Final = datetime(2026, 6, 30, 12, tzinfo=UTC)
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
    ("field", "expected", "values"),
    [
        (
            "access_token",
            "printable ASCII",
            [None, "", " ", "a b", "a\r\nX: y", "S3CRET\xe9", "S3CRET\x00", 7, ["a"], "a" * 16385],
        ),
        ("token_type", "Bearer", [None, "", "mac", "S3CRET", 1, ["Bearer"], "Bearer "]),
        (
            "expires_in",
            "a whole number of seconds",
            [None, 0, -1, True, "3600", 3600.0, 1e400, 10**10, 2**63, [3600]],
        ),
    ],
)
def test_a_field_that_is_wrong_is_named_and_not_shown(
    field: str, expected: str, values: list[Any]
) -> None:
    for value in values:
        error = failure(answered(GOOD | {field: value}), TokenError)
        assert error.status == 200
        assert not error.retryable or value == 1e400
        assert (field in str(error) and expected in str(error)) or value == 1e400
        assert "S3CRET" not in str(error) + repr(error)
    missing = {name: value for name, value in GOOD.items() if name != field}
    assert field in str(failure(answered(missing), TokenError))


TWICE: Final = b'{"access_token":"a","access_token":"b","token_type":"Bearer","expires_in":9}'
OTHER_SHAPES: Final[tuple[Any, ...]] = (None, [], "abc", 1, TWICE)


def test_a_reply_that_is_not_json_can_be_retried() -> None:
    """A page of some proxy, or a body cut short, may be gone the next time.

    Whole JSON of another shape is not, nor is a reply that says two things.
    """
    for body in (b"", b"<html>S3CRET", b'{"access_token": "S3C', b"\xff"):
        error = failure(answered(body), TokenError)
        assert error.retryable, body
        assert error.message == f"token: text/html, {len(body)} bytes instead of JSON"
    for payload in OTHER_SHAPES:
        error = failure(answered(payload), TokenError)
        assert not error.retryable, payload
        assert ("twice" in error.message) is (payload is TWICE)


REFUSED: Final = "401 Unauthorized, the client credentials were refused"


# fmt: off
STATUSES: Final = [
    (400, AuthenticationError, False, "400 Bad Request"),
    (401, AuthenticationError, False, REFUSED),
    (403, TokenError,          False, "403 Forbidden"),
    (404, TokenError,          False, "404 Not Found; is auth_url right?"),
    (307, TokenError,          False, "307 Temporary Redirect"),
    (204, TokenError,          False, "204 No Content"),
    (408, TokenError,          True,  "408 Request Timeout"),
    (429, TokenError,          True,  "429 Too Many Requests"),
    (503, TokenError,          True,  "503 Service Unavailable"),
]
# fmt: on


@pytest.mark.parametrize(("status", "cls", "retryable", "said"), STATUSES)
def test_each_status_is_one_error(
    status: int, cls: type[IncomeClientError], retryable: bool, said: str
) -> None:
    """Whether it can be retried is as for any call; only refused credentials are said to be so."""
    error = failure(answered(GOOD, status), cls)
    assert (error.status, error.retryable, error.message) == (status, retryable, f"token: {said}")
    assert error.retry_after == 7.0


# The form in which a token is stored


def test_a_stored_token_keeps_its_end_and_lasts_no_longer_than_it_was_given_for() -> None:
    """A clock that was set back does not lengthen a token's life."""
    some = Token(authorization=Secret("Bearer t"), obtained_at=100, lifetime=600)
    stored = to_stored(some, now=150, wall_time=NOON)
    assert stored.access_token == Secret("t")
    assert stored.expires_at == NOON + timedelta(seconds=550)
    back = from_stored(stored, now=7000, wall_time=NOON + timedelta(seconds=50))
    assert back.authorization == some.authorization
    assert (back.obtained_at, back.lifetime) == (6900, 600)
    long = StoredToken(access_token=Secret("t"), expires_at=NOON + timedelta(days=9), lifetime=60)
    assert from_stored(long, now=500, wall_time=NOON).obtained_at == 500
    assert StoredToken(access_token="t", expires_at=NOON).lifetime == 3600


# A store that many processes share


class Shop:
    """Gives tokens t1, t2 and so on to processes that share a store; waits until it is opened."""

    def __init__(self, clock: Clock | None = None, lifetime: float = 3600) -> None:
        self.clock = clock or JumpingClock()
        self.lifetime = lifetime
        self.asked = 0
        self.opened = asyncio.Event()
        self.opened.set()

    async def request(self) -> Token:
        self.asked += 1
        await self.opened.wait()
        return Token(
            authorization=Secret(f"Bearer t{self.asked}"),
            obtained_at=self.clock.monotonic(),
            lifetime=self.lifetime,
        )

    def cache(self, shelf: Shelf) -> TokenCache:
        """Return what a process has which begins at noon."""
        now = self.clock.monotonic
        noon = NOON - timedelta(seconds=now())
        return TokenCache(
            self.request, self.clock, store=shelf, wall_time=lambda: noon + timedelta(seconds=now())
        )


def text(token: Token | None) -> str:
    assert token is not None
    return token.authorization.reveal().removeprefix("Bearer ")


def stored(seconds: float) -> StoredToken:
    """Return the token s, which ends so many seconds after noon."""
    return StoredToken(access_token=Secret("s"), expires_at=NOON + timedelta(seconds=seconds))


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
def shop(clock: JumpingClock) -> Shop:
    return Shop(clock)


async def test_a_refused_token_is_not_taken_from_the_store(shop: Shop) -> None:
    """A process takes the token of another process from the store, unless it was refused."""
    shelf = Shelf()
    first, second = shop.cache(shelf), shop.cache(shelf)
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


async def test_no_refused_token_is_taken_from_the_store_again(shop: Shop) -> None:
    """A second refused token of the store, or the first one again, changes nothing."""
    shelf = Shelf()
    cache = shop.cache(shelf)
    first = await cache.get()
    shelf.stored = stored(3600)
    assert cache.invalidate(first)
    second = await cache.get()
    assert text(second) == "s"
    assert cache.invalidate(evolve(second, is_shared=False))
    shelf.stored = StoredToken(access_token=Secret("t1"), expires_at=NOON + timedelta(hours=1))
    assert text(await cache.get()) == "t2"


async def test_a_refused_token_of_another_process_is_replaced_as_well() -> None:
    """After a revocation of all tokens, the call succeeds with a new one."""
    ends = datetime.now(UTC) + timedelta(hours=1)
    revoked = [StoredToken(access_token=Secret(name), expires_at=ends) for name in ("a", "b")]

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
    shop: Shop, seconds: float, requests: int
) -> None:
    """A token that is over, or nearly so, is replaced; a stale one is better than waiting."""
    await shop.cache(Shelf(stored(seconds))).get()
    assert shop.asked == requests


async def test_early_renewal_takes_a_fresh_token_of_others(shop: Shop, clock: JumpingClock) -> None:
    shelf = Shelf()
    cache = shop.cache(shelf)
    await cache.get()
    clock.advance(3400)
    shelf.stored = stored(1.9 * 3600)
    assert text(cache.current()) == "t1"
    await turns(10)
    assert text(cache.current()) == "s"
    assert shop.asked == 1


@pytest.mark.parametrize(
    ("fault", "is_claimed", "warnings"),
    [
        (OSError("S3CRET"), False, 2),
        (TimeoutError("S3CRET"), False, 2),
        (KeyError("S3CRET"), True, 3),
        ("S3CRET", False, 1),
    ],
    ids=["error", "time-out", "claim", "something else"],
)
async def test_a_failing_store_never_breaks_a_call(
    shop: Shop, fault: Any, is_claimed: bool, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names the error's type only, and the call works without the store."""
    shelf = ClaimedShelf(shop.clock) if is_claimed else Shelf()
    if isinstance(fault, Exception):
        shelf.fault = fault
    else:
        shelf.stored = fault
    assert text(await shop.cache(shelf).get()) == "t1"
    await turns(10)
    assert [line.levelname for line in caplog.records] == ["WARNING"] * warnings
    assert ("the token could not be claimed" in caplog.text) is is_claimed
    assert isinstance(fault, str) or type(fault).__name__ in caplog.text
    assert "S3CRET" not in caplog.text


class Abyss(Shelf):
    """Never answers; so many seconds pass meanwhile."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.loads = 0

    async def load(self) -> NoReturn:
        self.loads += 1
        await stay_silent(self.seconds)


async def test_loading_leaves_a_short_deadline_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that hangs takes only a part of a call's time."""
    monkeypatch.setattr("income_client.http.tokens._STORE_SECONDS", 1000)
    answer = token_rules(in_turn(reply(body=b"fine")))
    options: dict[str, Any] = {"token_store": Abyss(30), "timeouts": Timeouts(deadline=100)}
    async with playing(answer, **options) as (session, _, _):
        assert await call(session) == b"fine"


async def test_a_store_that_does_not_answer_is_done_without_for_a_minute(
    shop: Shop, clock: JumpingClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the first call waits ten seconds for the store."""
    shop.lifetime, abyss = 8.0, Abyss(11)
    cache = shop.cache(abyss)
    for seconds, loads in ((0, 1), (8, 1), (50, 1), (8, 2)):
        clock.advance(seconds)
        await cache.get()
        assert abyss.loads == loads
    assert shop.asked == 4
    await cache.aclose()
    assert "shares none for 60 s" in caplog.text


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
    """The token serves at once; one refused meanwhile is replaced, and closing ends a saving."""
    snail = Snail()
    cache = shop.cache(snail)
    async with asyncio.timeout(2):
        token = await cache.get()
    await turns(10)
    assert (text(token), snail.began, snail.saved) == ("t1", 1, 0)
    cache.invalidate(token)
    assert text(await cache.get()) == "t2"
    snail.let.set()
    await turns(10)
    assert snail.saved == 2
    assert snail.stored is not None
    assert snail.stored.access_token == Secret("t2")
    snail.let.clear()
    clock.advance(3600)
    assert text(await cache.get()) == "t3"
    await turns(10)
    assert snail.began == 3
    await cache.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert snail.saved == 2


# A store by which one of many processes renews the token


class ClaimedShelf(Shelf):
    """Can be claimed until something is saved; answers may take seconds of the clock."""

    def __init__(self, clock: Clock, seconds: float = 0.0) -> None:
        super().__init__()
        self.clock = clock
        self.seconds = seconds
        self.claimed_at = -1e9

    @contextlib.asynccontextmanager
    async def _answering(self) -> AsyncIterator[None]:
        if self.seconds:
            await self.clock.sleep(self.seconds / 2)
        yield  # what is done is done in the middle
        if self.seconds:
            await self.clock.sleep(self.seconds / 2)

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
    caches = [shop.cache(shelf) for _ in range(8)]
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


async def test_a_claim_is_not_waited_for_long(shop: Shop, clock: JumpingClock) -> None:
    """The claim's process may have ended; a needless claim is removed by its own process."""

    class LateShelf(ClaimedShelf):
        async def claim(self, seconds: float) -> bool:
            self.stored = evolve(stored(60), lifetime=60)
            return await super().claim(seconds)

    abandoned, began = ClaimedShelf(clock), clock.monotonic()
    assert await abandoned.claim(5)
    assert text(await shop.cache(abandoned).get()) == "t1"
    assert 5 <= clock.monotonic() - began < 6
    shelf = LateShelf(clock)
    assert text(await shop.cache(shelf).get()) == "s"
    await turns(10)
    assert await shelf.claim(5)


# A store that is slow

SECONDS: Final = 20.0


class Service(Shop):
    """Accepts the newest token only, until it expires."""

    newest = ("", 0.0)
    """Text of the newest token, and the time when it expires."""
    calls = refused = 0

    async def request(self) -> Token:
        await self.clock.sleep(0.05)
        token = await super().request()
        self.newest = (text(token), self.clock.monotonic() + token.lifetime)
        return token

    async def be_called(self, cache: TokenCache) -> None:
        """Take calls of one process, each of which is repeated once after a 401."""
        now = self.clock.monotonic
        until = now() + SECONDS
        while now() < until:
            self.calls += 1
            for is_last in (False, True):
                token = await cache.get()
                await self.clock.sleep(0.05)
                if text(token) == self.newest[0] and now() < self.newest[1]:
                    break
                cache.invalidate(token)
                self.refused += is_last
            await self.clock.sleep(0.1)


@pytest.mark.parametrize("seconds", [0.5, 1.3])
async def test_no_call_fails_because_the_store_is_slow(seconds: float) -> None:
    """Each process waits for the store's answers."""
    clock = ManualClock()
    service, shelf = Service(clock, 8.0), ClaimedShelf(clock, seconds)
    caches = [service.cache(shelf) for _ in range(4)]
    calls = asyncio.gather(*map(service.be_called, caches))
    while not calls.done():
        await clock.pass_time(1)
    for cache in caches:
        await cache.aclose()
    assert service.calls > 60
    assert service.refused == 0
    assert service.asked < 1.5 * SECONDS / (service.lifetime * 3 / 4)
