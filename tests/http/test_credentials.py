"""Credentials from a function: asked in time, once for all, and nothing of it is shown."""

import asyncio
import threading
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import pytest

from income_client import (
    AuthenticationError,
    BasicAuth,
    ConfigurationError,
    DeadlineExceededError,
    OAuth2ClientCredentials,
    StoredToken,
    Timeouts,
    TokenError,
)
from income_client.events import Event, TokenRenewed
from income_client.http.credentials import CredentialSource
from income_client.settings import Auth
from income_client.testing import JumpingClock
from tests.support.clients import BASIC, OAUTH, Shelf, ask, outcomes, running
from tests.support.clocks import pass_time, stay_silent
from tests.support.server import (
    EMPTY_PAGE,
    UNAUTHORIZED,
    Reply,
    Request,
    reply,
    token_reply,
)
from tests.support.service import until

NEW_BASIC: Final = BasicAuth("user", "invented-too")
NEW_OAUTH: Final = OAuth2ClientCredentials("partner", "invented-too")
REFUSED: Final = reply(401, b'{"error": "invalid_client"}')


class Vault:
    """Keeps credentials, and counts how often it is asked for them."""

    def __init__(self, auth: object) -> None:
        self.auth = auth
        self.asked = 0

    def read_plainly(self) -> Auth:
        """Return the credentials; raise them if they are an error."""
        self.asked += 1
        if isinstance(self.auth, BaseException):
            raise self.auth
        return cast("Auth", self.auth)

    async def read(self) -> Auth:
        await asyncio.sleep(0)
        return self.read_plainly()


class Account:
    """An account that the service accepts; its tokens end with the secret that requested them."""

    def __init__(self, auth: Auth) -> None:
        self.auth = auth
        self.refused = 0
        self._issued = 0

    def rotate(self, auth: Auth) -> None:
        """Accept other credentials from now on."""
        self.auth = auth
        self._issued += 1

    def call(self, request: Request) -> Reply:
        """Answer a call."""
        expected = f"Bearer token-{self._issued}"
        if isinstance(self.auth, BasicAuth):
            expected = self.auth.authorization().reveal()
        if request.authorization == expected:
            return EMPTY_PAGE
        self.refused += 1
        return UNAUTHORIZED

    def issue(self, request: Request) -> Reply:
        """Answer a token request."""
        if request.authorization != self.auth.authorization().reveal():
            self.refused += 1
            return REFUSED
        self._issued += 1
        return token_reply(f"token-{self._issued}")


PAIRS: Final = [
    pytest.param(BASIC, NEW_BASIC, id="Basic"),
    pytest.param(OAUTH, NEW_OAUTH, id="OAuth"),
    pytest.param(OAUTH, NEW_BASIC, id="another kind"),
    pytest.param(OAUTH, OAuth2ClientCredentials("other", "invented"), id="another client"),
]


@pytest.mark.parametrize(("old", "new"), PAIRS)
async def test_calls_go_on_with_rotated_credentials(old: Auth, new: Auth) -> None:
    """Many begin, or are refused, at a time: they ask together, also through a view."""
    vault, account = Vault(old), Account(old)
    async with running(account.call, account.issue, auth=vault.read) as (_, client):
        view = client.with_options(deadline=60)
        assert set(await outcomes(client, ["a"] * 50)) == set(await outcomes(view, "b")) == {"done"}
        assert (vault.asked, account.refused) == (1, 0)
        account.rotate(new)
        vault.auth = new
        found = await asyncio.gather(outcomes(client, ["a"] * 9), outcomes(view, ["b"] * 9))
        assert {one for some in found for one in some} == {"done"}
    assert vault.asked == 2


async def test_a_token_request_asks_each_time() -> None:
    """A secret that is rotated in time is never refused; a refused one is not sent again.

    The function may learn of a rotation while the old secret is on its way. Where it gives the
    same credentials, they are refused as fixed ones are, and newer ones are read after ten seconds.
    """
    clock = JumpingClock()
    vault, account = Vault(OAUTH), Account(OAUTH)

    def issue(request: Request) -> Reply:
        vault.auth = coming
        return account.issue(request)

    coming: Auth = OAUTH
    async with running(account.call, issue, auth=vault.read, clock=clock) as (_, client):
        await ask(client)
        account.auth = vault.auth = coming = NEW_OAUTH
        clock.advance(3600)
        await ask(client)
        assert (vault.asked, account.refused) == (2, 0)
        account.auth = coming = OAUTH
        clock.advance(3600)
        await ask(client)
        assert (vault.asked, account.refused) == (4, 1)
        account.auth = NEW_OAUTH
        clock.advance(3600)
        for _ in range(3):
            with pytest.raises(AuthenticationError) as caught:
                await ask(client)
            assert caught.value.status == 401
        assert (vault.asked, account.refused) == (6, 2)
        vault.auth = coming = NEW_OAUTH
        clock.advance(9)
        with pytest.raises(AuthenticationError):
            await ask(client)
        clock.advance(1)
        await ask(client)
        assert (vault.asked, account.refused) == (7, 2)


async def test_the_same_basic_credentials_are_not_sent_again() -> None:
    vault, account = Vault(BASIC), Account(NEW_BASIC)
    async with running(account.call, auth=vault.read) as (service, client):
        with pytest.raises(AuthenticationError) as caught:
            await ask(client)
        assert (caught.value.status, caught.value.attempts) == (401, 1)
        assert (vault.asked, len(service.calls)) == (2, 1)
        vault.auth = NEW_BASIC
        await ask(client)
    assert (vault.asked, account.refused) == (3, 2)


class Awaited:
    """An object that is called like an asynchronous function."""

    async def __call__(self) -> Auth:
        return BASIC


def return_awaitable() -> Awaitable[Auth]:
    return Awaited()()


@pytest.mark.parametrize("function", [Awaited(), return_awaitable, lambda: BASIC])
async def test_a_function_takes_any_form(function: Any) -> None:
    assert await CredentialSource(function, 120).ask() == BASIC


RAISED: Final = (
    OSError("s3cret"), SystemExit("s3cret"), StopIteration("s3cret"), TimeoutError("s3cret"),
    ConfigurationError("s3cret"), AuthenticationError("s3cret"),
)  # fmt: skip


async def test_what_the_function_raises_can_be_retried() -> None:
    """The error names its class and nothing else of it; the next call asks again."""

    async def function() -> Auth:
        raise asyncio.CancelledError

    with pytest.raises(TokenError, match="has raised CancelledError"):
        await CredentialSource(function, 120).ask()
    vault, account = Vault(BASIC), Account(BASIC)
    async with running(account.call, auth=vault.read_plainly) as (_, client):
        for error in RAISED:
            vault.auth = error
            with pytest.raises(TokenError) as caught:
                await ask(client)
            expected = f"credentials: the function of auth has raised {type(error).__name__}"
            assert str(caught.value) == expected
            assert caught.value.retryable
            assert caught.value.__cause__ is caught.value.__context__ is None
        vault.auth = BASIC
        await ask(client)


@pytest.mark.parametrize("auth", [None, 7, "s3cret", ("user", "s3cret"), BasicAuth, ask])
async def test_another_type_is_named_and_not_shown(auth: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await CredentialSource(Vault(auth).read, 120).ask()
    expected = f"BasicAuth or OAuth2ClientCredentials, not {type(auth).__name__}"
    assert (caught.value.message, caught.value.argument) == (f"auth must return {expected}", "auth")


async def test_the_deadline_and_the_end_of_the_client_end_the_waiting_for_a_function() -> None:
    """The function is cancelled, and the next call asks again."""
    hangs = asyncio.Event()

    async def function() -> Auth:
        if not hangs.is_set():
            hangs.set()
            await stay_silent(61)
        return BASIC

    options: dict[str, Any] = {"auth": function, "timeouts": Timeouts(deadline=60)}
    async with running(Account(BASIC).call, **options) as (_, client):
        with pytest.raises((DeadlineExceededError, TokenError)) as caught:
            await ask(client)
        assert caught.value.retryable
        await ask(client)
    hangs.clear()
    async with running(auth=function) as (_, client):
        asking = asyncio.create_task(outcomes(client, ["a"]))
        await hangs.wait()
        await client.aclose()
        assert await asking == ["ClientClosedError"]


async def test_a_plain_function_that_hangs_is_not_called_again_before_it_returns() -> None:
    """Neither does it hold up the loop; what it returns in the end counts."""
    called, may_return = [], threading.Event()

    def function() -> Auth:
        called.append(threading.current_thread())
        may_return.wait()
        return BASIC

    source = CredentialSource(function, 60)
    for _ in range(2):
        asking = asyncio.create_task(source.ask())
        await until(lambda: bool(called))
        await asyncio.sleep(0)
        pass_time(61)
        with pytest.raises(TokenError, match="has not returned within 60 s") as caught:
            await asking
        assert caught.value.retryable
    may_return.set()
    assert await source.ask() == BASIC
    assert len(called) == 1
    assert called[0] is not threading.current_thread()
    assert await source.ask() == BASIC
    assert len(called) == 2


async def test_a_stored_token_of_another_client_serves_until_it_is_refused() -> None:
    """Then one of the new client takes its place in the store."""
    new = OAuth2ClientCredentials("other", "invented")
    end = datetime.now(UTC) + timedelta(hours=1)
    shelf = Shelf(StoredToken(access_token="of-the-old-client", expires_at=end))
    vault, account = Vault(new), Account(new)
    accepted = {"Bearer of-the-old-client", "Bearer token-1"}

    def call(request: Request) -> Reply:
        return EMPTY_PAGE if request.authorization in accepted else UNAUTHORIZED

    options: dict[str, Any] = {"auth": vault.read, "token_store": shelf}
    async with running(call, account.issue, **options) as (_, client):
        await ask(client)
        assert vault.asked == 0
        accepted.remove("Bearer of-the-old-client")
        await ask(client)
        assert vault.asked == 1
        await until(lambda: shelf.saved == 1)
    assert shelf.stored is not None
    assert shelf.stored.access_token.reveal() == "token-1"


async def test_basic_credentials_have_no_token_to_share() -> None:
    """Basic credentials are neither put into the store nor reported as a token."""
    shelf, events = Shelf(), list[Event]()
    async with running(auth=Vault(BASIC).read, token_store=shelf) as (_, client):
        with pytest.raises(ConfigurationError, match="token_store is for OAuth2ClientCredentials"):
            await ask(client)
    assert shelf.stored is None
    for auth, renewals in ((BASIC, 0), (OAUTH, 1)):
        account = Account(auth)
        options: dict[str, Any] = {"auth": Vault(auth).read, "on_event": events.append}
        async with running(account.call, account.issue, **options) as (_, client):
            await ask(client)
        assert sum(isinstance(event, TokenRenewed) for event in events) == renewals


async def test_a_renewal_in_the_background_survives_the_function() -> None:
    """The token in use serves on, and the next try asks again."""
    clock = JumpingClock()
    vault, account = Vault(OAUTH), Account(OAUTH)
    async with running(account.call, account.issue, auth=vault.read, clock=clock) as (_, client):
        await ask(client)
        vault.auth = OSError("invented")
        clock.advance(3400)
        await ask(client)
        await until(lambda: vault.asked == 2)
        vault.auth = OAUTH
        clock.advance(31)
        await ask(client)
        await until(lambda: vault.asked == 3)
