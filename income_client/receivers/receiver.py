"""Receives callbacks: checks and reads them, and answers after ``on_callback`` has finished.

Knows no web framework: a head and a body come in, an answer goes out. What a callback says is
a hint and nothing more.
"""

import asyncio
import inspect
import re
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

from attrs import evolve, field, frozen

from income_client.errors import CallbackRejectedError, InvalidArgumentError
from income_client.records.callbacks import Callback
from income_client.settings import check_choice, check_count, check_not_negative, check_positive
from income_client.system.frames import strip_frames

from .adapters import Body, QuietLog, TimeSource, is_cancelled, logger, place_of, read_body
from .auth import CallbackAuth, CallbackBearerAuth, CallbackGate, Verify
from .exchange import (
    LONGEST_TOKEN,
    Answer,
    Refusal,
    RefusedError,
    Repeats,
    RequestHead,
    check_content,
    make_answer,
    read_callback,
)
from .networks import TrustedProxies

if TYPE_CHECKING:
    from .jwks import FetchKeySet, KeySetCache
    from .jwt import TokenKeys, TokenRules

OnCallback: TypeAlias = Callable[[Callback], Awaitable[Any] | Any]
"""Function that handles a callback, such as a poller's ``wake``."""
Outcome: TypeAlias = Refusal | None
"""Refusal with which a run of ``on_callback`` ended; None for a success."""

_TAKEN: Final = make_answer(HTTPStatus.OK)
_VERIFY_SECONDS: Final = 10.0
_BEARER: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@frozen(kw_only=True)
class ReceiverStatus:
    """Counts of a receiver's callbacks since it was created."""

    handled: int
    """Callbacks that were answered with 200."""
    repeats: int
    """Runs of ``on_callback``, done or skipped, for bytes handled shortly before."""
    waiting: int
    """Callbacks that are being handled or wait for their turn."""
    refused: Mapping[str, int] = field(factory=dict)
    """Requests that were not answered with 200, by reason."""
    last_handled_at: datetime | None
    """Time at which the last callback was answered with 200, in UTC."""


@strip_frames
class CallbackReceiver:
    """An endpoint for the service's callbacks (contract sections 1, 5.2 and 6).

    Serve it with `income_client.receivers.aiohttp.routes` or
    `income_client.receivers.asgi.Receiver`; or hand `answer` the requests of another
    framework. A callback is answered with 200 once ``on_callback`` has returned, and with
    503 and Retry-After if that fails, takes too long or has too much to do, upon which
    the service is assumed to send it again. Equal callbacks that come at once to one event loop
    share a run. Several threads may use a receiver, each with an event loop of its own, also one
    loop for each request: ``async_to_sync(receiver.answer)(RequestHead(...), body)``.

    Args:
        on_callback: called with each `Callback`; an ``async def``, or a function that
            does not block, such as ``poller.wake``. It runs in the server's event loop.
        auth: how callbacks show where they come from: a `CallbackBasicAuth`, a
            `CallbackBearerAuth`, a `CallbackClientCertificate`, `CallbackSourceNetworks`,
            or several of them. Of Basic and Bearer either will do; the others must hold too.
        trusted_proxies: addresses or networks of the proxies before this server, whose
            headers about addresses and certificates are believed; ``"unix:"`` for one that
            comes over a socket of the file system.
        concurrency: callbacks that are handled at a time in one event loop.
        queue: callbacks that may wait for their turn.
        timeout: seconds that ``on_callback`` may take, the waiting included; it is
            cancelled then. A service that waits for less has given up by then.
        retry_after: seconds after which the service may send again what was not taken.
        max_body_bytes: longest body, in bytes.
        body_timeout: seconds that a body may take to come.
        repeat_window: seconds for which a callback is remembered once it was handled.
        on_repeat: whether ``on_callback`` runs for one that is remembered ("run"), with
            ``is_repeat`` set, or it is answered with 200 at once ("skip"). Callbacks have
            no id that is known of; skip them only if no two events look the same.
        clock: the module ``time``, or its replacement in a test.

    Raises:
        ConfigurationError: an argument is invalid, or nothing is checked.
    """

    def __init__(
        self,
        on_callback: OnCallback,
        *,
        auth: CallbackAuth | Iterable[CallbackAuth],
        trusted_proxies: Iterable[str] = (),
        concurrency: int = 16,
        queue: int = 256,
        timeout: float = 8.0,
        retry_after: float = 5.0,
        max_body_bytes: int = 2**20,
        body_timeout: float = 10.0,
        repeat_window: float = 600.0,
        on_repeat: Literal["run", "skip"] = "run",
        clock: TimeSource = time,
    ) -> None:
        _check_handler(on_callback)
        check_choice("on_repeat", on_repeat, ("run", "skip"))
        self._on_callback = on_callback
        self._is_skipping_repeats = on_repeat == "skip"
        self._concurrency = check_count("concurrency", concurrency)
        self._most_waiting = concurrency + check_count("queue", queue)
        self._timeout = check_positive("timeout", timeout)
        self._retry_after = check_positive("retry_after", retry_after)
        self._max_body_bytes = check_count("max_body_bytes", max_body_bytes)
        self._body_timeout = check_positive("body_timeout", body_timeout)
        self._remembered = Repeats(check_not_negative("repeat_window", repeat_window))
        self._gate = CallbackGate(auth, proxies=TrustedProxies(trusted_proxies))
        bearer = self._gate.bearer
        self._tokens = None if bearer is None else TokenCheck(bearer, clock)
        self._clock = clock
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopState] = WeakKeyDictionary()
        self._lock = threading.Lock()
        """Guards what the event loops of several threads share; never held across an await."""
        self._refusals: Counter[str] = Counter()
        self._log = QuietLog()
        self._waiting = self._handled = self._repeats = 0
        self._last_handled_at: datetime | None = None

    def __repr__(self) -> str:
        return f"<CallbackReceiver, {self._handled} handled>"

    @property
    def status(self) -> ReceiverStatus:
        """State of the receiver, for a health endpoint."""
        return ReceiverStatus(
            handled=self._handled,
            repeats=self._repeats,
            waiting=self._waiting,
            refused=dict(self._refusals),
            last_handled_at=self._last_handled_at,
        )

    async def answer(self, head: RequestHead, body: Body) -> Answer:
        """Answer a request; raises nothing but cancellation.

        Args:
            head: what came before its body.
            body: the whole of it, or chunks as they come; not looked at if the head is
                refused.

        Returns:
            200 once ``on_callback`` has returned; else the status that says why not, and
            JSON in any case.
        """
        is_read = False
        try:
            await self._check_head(head)
            read = await read_body(body, max_bytes=self._max_body_bytes, seconds=self._body_timeout)
            is_read = True
            await self._handle_body(read)
        except RefusedError as error:
            return self._refusal_answer(error.refusal, head, is_read=is_read)
        except Exception as error:  # noqa: BLE001 - a bug, in frames that hold the request
            logger.error("callback not answered: %s", place_of(error))
            return self._refusal_answer(Refusal.RECEIVER_FAILED, head, is_read=is_read)
        return _TAKEN

    async def verify(self, head: RequestHead, body: bytes) -> Callback:
        """Return a callback after all checks, without a call of ``on_callback``.

        For a framework without an adapter here, or a queue in between. Which callbacks were
        handled is not known here, so that none is a repeat.

        Args:
            head: what came before the body.
            body: the whole of it.

        Raises:
            CallbackRejectedError: with the status to answer with, and why.
        """
        try:
            await self._check_head(head)
            if len(body) > self._max_body_bytes:
                raise RefusedError(Refusal.TOO_LARGE)  # noqa: TRY301 - raised again below
            return read_callback(body, received_at=self._utc_now())
        except RefusedError as error:
            refusal = error.refusal
            self._note_refusal(refusal, head)
            is_temporary = refusal.status == HTTPStatus.SERVICE_UNAVAILABLE
            retry_after = self._retry_after if is_temporary else None
            raise CallbackRejectedError(
                refusal.status, refusal.reason, retry_after=retry_after
            ) from None

    async def _check_head(self, head: RequestHead) -> None:
        token = self._gate.check(head, now=self._clock.time())
        if token is not None and self._tokens is not None:
            await self._tokens.check(token)
        check_content(head, max_body_bytes=self._max_body_bytes)

    def _refusal_answer(self, refusal: Refusal, head: RequestHead, *, is_read: bool) -> Answer:
        self._note_refusal(refusal, head)
        headers = {} if is_read else {"Connection": "close"}
        match refusal.status:
            case HTTPStatus.METHOD_NOT_ALLOWED:
                headers["Allow"] = "POST"
            case HTTPStatus.UNAUTHORIZED:
                headers["WWW_Authenticate"] = ", ".join(self._gate.challenges)
            case HTTPStatus.SERVICE_UNAVAILABLE:
                headers["Retry_After"] = str(ceil(self._retry_after))
        return make_answer(refusal.status, **headers)

    def _note_refusal(self, refusal: Refusal, head: RequestHead) -> None:
        with self._lock:
            self._refusals[refusal.slug] += 1
        text = f"callback refused with {refusal.status}: {refusal.reason}"
        now = self._clock.monotonic()
        self._log.warn(text, reason=refusal.slug, peer=head.peer, now=now)

    async def _handle_body(self, body: bytes) -> None:
        callback = read_callback(body, received_at=self._utc_now())
        with self._lock:
            if self._waiting >= self._most_waiting:
                raise RefusedError(Refusal.QUEUE_FULL)
            self._waiting += 1
        refusal: Outcome = Refusal.HANDLER_SLOW
        try:
            refusal = await self._within_time(sha256(body).digest(), callback)
        finally:
            with self._lock:
                self._waiting -= 1
                self._handled += refusal is None
        if refusal is not None:
            raise RefusedError(refusal)
        self._last_handled_at = self._utc_now()

    async def _within_time(self, digest: bytes, callback: Callback) -> Outcome:
        here = self._state_of_loop()
        try:
            async with asyncio.timeout(self._timeout):
                run = partial(self._run_handler, digest, callback, here.turns)
                return await here.runs.run(digest, run)
        except TimeoutError:
            return Refusal.HANDLER_SLOW

    async def _run_handler(
        self, digest: bytes, callback: Callback, turns: asyncio.Semaphore
    ) -> Outcome:
        async with turns:
            # Looked at now, since an equal one may have been under way until now.
            with self._lock:
                is_repeat = self._remembered.holds(digest, now=self._clock.monotonic())
            if not (is_repeat and self._is_skipping_repeats):
                refusal = await self._call_handler(evolve(callback, is_repeat=is_repeat))
                if refusal is not None:
                    return refusal
                with self._lock:
                    self._remembered.add(digest, now=self._clock.monotonic())
            with self._lock:
                self._repeats += is_repeat
        return None

    def _state_of_loop(self) -> "_LoopState":
        """Return the running loop's state, made by the first callback in it."""
        loop = asyncio.get_running_loop()
        with self._lock:
            state = self._loops.get(loop)
            if state is None:
                state = _LoopState(asyncio.Semaphore(self._concurrency), SharedRuns())
                self._loops[loop] = state
        return state

    async def _call_handler(self, callback: Callback) -> Outcome:
        try:
            outcome = self._on_callback(callback)
            if inspect.isawaitable(outcome):
                await outcome
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled():
                raise
            # Neither its text nor its frames: both may hold what the payload held.
            logger.error("on_callback failed: %s", place_of(error))
            return Refusal.HANDLER_FAILED
        return None

    def _utc_now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.time(), UTC)


def _check_handler(on_callback: object) -> None:
    """Refuse a handler that cannot be called with one callback."""
    if not callable(on_callback) or inspect.isasyncgenfunction(on_callback):
        raise InvalidArgumentError(
            "on_callback must be a function that does not yield", argument="on_callback"
        )
    try:
        inspect.signature(on_callback).bind(None)
    except ValueError:  # some built-in callables have no signature
        return
    except TypeError:
        raise InvalidArgumentError(
            "on_callback must take one argument, the Callback", argument="on_callback"
        ) from None


class TokenCheck:
    """Checks bearer tokens (contract section 5.2)."""

    def __init__(
        self, auth: CallbackBearerAuth, clock: TimeSource, *, fetch: "FetchKeySet | None" = None
    ) -> None:
        self._auth = auth
        self._clock = clock
        self._cache: KeySetCache | None = None
        if auth.jwks_url is not None:
            from . import jwks  # noqa: PLC0415 - only an address needs its library

            self._cache = jwks.KeySetCache(
                auth.jwks_url,
                monotonic=clock.monotonic,
                fetch=fetch or partial(jwks.fetch_key_set, tls=auth.ssl),
            )

    async def check(self, token: str) -> None:
        """Refuse an invalid token."""
        if len(token) > LONGEST_TOKEN or _BEARER.fullmatch(token) is None:
            raise RefusedError(Refusal.TOKEN_UNREADABLE)
        auth = self._auth
        if auth.verify is not None:
            await _call_verify(auth.verify, token)
        elif auth.rules is None:
            raise RefusedError(Refusal.TOKEN_REFUSED)
        elif self._cache is not None:
            await self._check_fetched(self._cache, token, auth.rules)
        elif auth.keys is None or self._has_unknown_key(token, auth.keys, auth.rules):
            raise RefusedError(Refusal.TOKEN_KEY_UNKNOWN)

    async def _check_fetched(self, cache: "KeySetCache", token: str, rules: "TokenRules") -> None:
        from .jwt import NO_KEYS  # noqa: PLC0415 - an extra

        came_at = self._clock.monotonic()
        if cache.current is None:
            # A token that cannot be valid is not worth a request for keys.
            self._has_unknown_key(token, NO_KEYS, rules)
        keys = await cache.keys()
        if self._has_unknown_key(token, keys, rules):
            newer = await cache.newer_than(keys, since=came_at)
            if self._has_unknown_key(token, newer, rules):
                raise RefusedError(Refusal.TOKEN_KEY_UNKNOWN)

    def _has_unknown_key(self, token: str, keys: "TokenKeys", rules: "TokenRules") -> bool:
        """Return whether a newer key set may have the token's key; refuse other faults."""
        from .jwt import check_token  # noqa: PLC0415 - an extra

        try:
            check_token(token, keys, rules, now=self._clock.time())
        except RefusedError as error:
            if error.refusal is not Refusal.TOKEN_KEY_UNKNOWN:
                raise
            return True
        return False


async def _call_verify(verify: Verify, token: str) -> None:
    """Call the user's ``verify``; refuse the token unless it returns exactly True."""
    try:
        async with asyncio.timeout(_VERIFY_SECONDS):
            verdict: Any = verify(token)
            if inspect.isawaitable(verdict):
                verdict = await verdict
    except (Exception, asyncio.CancelledError) as error:  # its text may show the token
        if is_cancelled():
            raise
        logger.warning("verify failed with %s", type(error).__name__)
        raise RefusedError(Refusal.VERIFIER_FAILED) from None
    if verdict is True:
        return
    if verdict is False or verdict is None:
        raise RefusedError(Refusal.TOKEN_REFUSED)
    logger.warning("verify returned %s, not a bool", type(verdict).__name__)
    raise RefusedError(Refusal.VERIFIER_FAILED)


@frozen
class _LoopState:
    """The callbacks of one event loop: a task can wait only for what belongs to its own loop."""

    turns: asyncio.Semaphore
    runs: "SharedRuns"


class SharedRuns:
    """Runs for equal callbacks: one at a time, and one more for all that arrive meanwhile.

    One that comes during a run may report something newer than that run has seen, and is
    served by the next, together with all who come before that begins.
    """

    def __init__(self) -> None:
        self._running: dict[bytes, asyncio.Future[Outcome]] = {}
        self._next: dict[bytes, asyncio.Future[Outcome]] = {}

    async def run(self, key: bytes, work: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Return the outcome of a run that begins after this call; equal keys share a run.

        Those whose shared run is cancelled by its runner get `Refusal.HANDLER_SLOW`.
        """
        if key in self._next:
            # The future is its runner's; one who waits for it may be cancelled alone.
            return await asyncio.shield(self._next[key])
        shared = self._next[key] = asyncio.get_running_loop().create_future()
        outcome: Outcome = Refusal.HANDLER_SLOW
        try:
            if key in self._running:
                await asyncio.wait((self._running[key],))
            self._running[key] = self._next.pop(key)
            outcome = await work()
        finally:
            for runs in (self._next, self._running):
                if runs.get(key) is shared:
                    del runs[key]
            shared.set_result(outcome)
        return outcome
