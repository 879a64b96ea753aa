"""Takes callbacks: checked, read, and answered once ``on_callback`` has finished with them.

Knows no web framework: a head and a body come in, an answer goes out. What may pass is
decided by the gate; what a callback says is believed by nobody.
"""

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from http import HTTPStatus
from math import ceil
from typing import Final, Literal, Protocol

from attrs import evolve

from income_client.protocol.callbacks.content import content_refusal, read_callback
from income_client.protocol.callbacks.exchange import Answer, RequestHead, answer
from income_client.protocol.callbacks.gate import BearerToken, CallbackAuth, CallbackGate
from income_client.protocol.callbacks.limits import ReceiverLimits
from income_client.protocol.callbacks.networks import TrustedProxies
from income_client.protocol.callbacks.refusals import Refusal
from income_client.protocol.callbacks.repeats import Repeats, digest_of
from income_client.records.callbacks import Callback

from .cancellation import is_cancelled
from .endpoint import Body, read_body
from .handler import OnCallback, check_handler, failure_of
from .shared_runs import SharedRuns
from .status import QuietLog, ReceiverStatus, logger
from .token_check import TokenCheck
from .turns import Turns

_TAKEN: Final = answer(HTTPStatus.OK)


class TimeSource(Protocol):
    """The module ``time``, or what stands for it in a test."""

    def time(self) -> float:
        """Return seconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some fixed moment."""
        ...


class CallbackReceiver:
    """An endpoint for the service's callbacks (contract sections 1, 5.2 and 6).

    Serve it with `income_client.receivers.aiohttp.routes` or
    `income_client.receivers.asgi.Receiver`; or hand `answer` the requests of another
    framework. A callback is answered with 200 once ``on_callback`` has returned, and with
    503 and Retry-After if that fails, takes too long or has too much to do, upon which
    the service is assumed to send it again. Equal callbacks that come at once share a run.

    Args:
        on_callback: called with each `Callback`; an ``async def``, or a function that
            does not block, such as ``poller.wake``. It runs in the server's event loop.
        auth: how callbacks show where they come from: a `CallbackBasicAuth`, a
            `CallbackBearerAuth`, a `CallbackClientCertificate`, `CallbackSourceNetworks`,
            or several of them. Of Basic and Bearer either will do; the others must hold too.
        trusted_proxies: addresses or networks of the proxies before this server, whose
            word about addresses and certificates is believed; ``"unix:"`` for one that
            comes over a socket of the file system.
        concurrency: callbacks that are handled at a time.
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
        clock: the module ``time``, or what stands for it in a test.

    Raises:
        ConfigurationError: an argument cannot be meant, or nothing is checked.
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
        check_handler(on_callback)
        self._limits = ReceiverLimits(
            concurrency=concurrency,
            queue=queue,
            timeout=timeout,
            retry_after=retry_after,
            max_body_bytes=max_body_bytes,
            body_timeout=body_timeout,
            repeat_window=repeat_window,
            on_repeat=on_repeat,
        )
        self._on_callback = on_callback
        self._gate = CallbackGate(auth, proxies=TrustedProxies(trusted_proxies))
        bearer = self._gate.bearer
        self._tokens = (
            None
            if bearer is None
            else TokenCheck(bearer, now=clock.time, monotonic=clock.monotonic)
        )
        self._clock = clock
        self._turns = Turns(concurrency)
        self._runs: SharedRuns[Refusal | None] = SharedRuns(Refusal.HANDLER_SLOW)
        self._remembered = Repeats(repeat_window)
        self._refusals: Counter[str] = Counter()
        self._log = QuietLog()
        self._waiting = self._handled = self._repeats = 0
        self._last_handled_at: datetime | None = None

    def __repr__(self) -> str:
        return f"<CallbackReceiver, {self._handled} handled>"

    @property
    def status(self) -> ReceiverStatus:
        """How it is doing, for a health endpoint."""
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
        refusal = await self._refusal_of(head)
        if refusal is not None:
            return self._refused(refusal, head, is_read=False)
        limits = self._limits
        read = await read_body(body, max_bytes=limits.max_body_bytes, seconds=limits.body_timeout)
        if isinstance(read, Refusal):
            return self._refused(read, head, is_read=False)
        refusal = await self._take(read)
        return _TAKEN if refusal is None else self._refused(refusal, head, is_read=True)

    async def verify(self, head: RequestHead, body: bytes) -> Callback:
        """Return what a callback says that may be taken; ``on_callback`` is not called.

        For a framework without an adapter here, or a queue of one's own in between. Which
        callbacks were handled is not known here, so that none is a repeat.

        Args:
            head: what came before the body.
            body: the whole of it.

        Raises:
            CallbackRejectedError: with the status to answer with, and why.
        """
        found = await self._verified(head, body)
        if isinstance(found, Refusal):
            self._note(found, head)
            is_temporary = found.status == HTTPStatus.SERVICE_UNAVAILABLE
            # Crash reporters send the locals of the frame that raises.
            del head, body
            raise found.error(retry_after=self._limits.retry_after if is_temporary else None)
        return found

    async def _verified(self, head: RequestHead, body: bytes) -> Callback | Refusal:
        refusal = await self._refusal_of(head)
        if refusal is None and len(body) > self._limits.max_body_bytes:
            refusal = Refusal.TOO_LARGE
        return refusal or read_callback(body, received_at=self._now())

    async def _refusal_of(self, head: RequestHead) -> Refusal | None:
        found = self._gate.check(head, now=self._clock.time())
        if isinstance(found, BearerToken) and self._tokens is not None:
            found = await self._tokens.refusal(found.text)
        if isinstance(found, Refusal):
            return found
        return content_refusal(head, max_body_bytes=self._limits.max_body_bytes)

    def _refused(self, refusal: Refusal, head: RequestHead, *, is_read: bool) -> Answer:
        self._note(refusal, head)
        headers = {} if is_read else {"Connection": "close"}
        match refusal.status:
            case HTTPStatus.METHOD_NOT_ALLOWED:
                headers["Allow"] = "POST"
            case HTTPStatus.UNAUTHORIZED:
                headers["WWW_Authenticate"] = ", ".join(self._gate.challenges)
            case HTTPStatus.SERVICE_UNAVAILABLE:
                headers["Retry_After"] = str(ceil(self._limits.retry_after))
        return answer(refusal.status, **headers)

    def _note(self, refusal: Refusal, head: RequestHead) -> None:
        self._refusals[refusal.slug] += 1
        text = f"callback refused with {refusal.status}: {refusal.reason}"
        now = self._clock.monotonic()
        self._log.warn(text, reason=refusal.slug, peer=head.peer, now=now)

    async def _take(self, body: bytes) -> Refusal | None:
        callback = read_callback(body, received_at=self._now())
        if isinstance(callback, Refusal):
            return callback
        if self._waiting >= self._limits.concurrency + self._limits.queue:
            return Refusal.QUEUE_FULL
        self._waiting += 1
        try:
            refusal = await self._within_time(digest_of(body), callback)
        finally:
            self._waiting -= 1
        if refusal is None:
            self._handled += 1
            self._last_handled_at = self._now()
        return refusal

    async def _within_time(self, digest: bytes, callback: Callback) -> Refusal | None:
        try:
            async with asyncio.timeout(self._limits.timeout):
                return await self._runs.run(digest, lambda: self._run(digest, callback))
        except TimeoutError:
            return Refusal.HANDLER_SLOW

    async def _run(self, digest: bytes, callback: Callback) -> Refusal | None:
        async with self._turns.one():
            # Looked at now, since an equal one may have been under way until now.
            is_repeat = self._remembered.holds(digest, now=self._clock.monotonic())
            if not is_repeat or self._limits.on_repeat == "run":
                refusal = await self._handle(evolve(callback, is_repeat=is_repeat))
                if refusal is not None:
                    return refusal
                self._remembered.add(digest, now=self._clock.monotonic())
            self._repeats += is_repeat
        return None

    async def _handle(self, callback: Callback) -> Refusal | None:
        try:
            outcome = self._on_callback(callback)
            if inspect.isawaitable(outcome):
                await outcome
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled():
                raise
            # Neither its text nor its frames: both may hold what the payload held.
            logger.error("on_callback failed: %s", failure_of(error))
            return Refusal.HANDLER_FAILED
        return None

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.time(), UTC)
