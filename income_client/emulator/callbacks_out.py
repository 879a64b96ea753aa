"""Callbacks on their way out: attempts and the pauses between them; knows no application."""

import asyncio
from http import HTTPStatus
from typing import Final

from attrs import field, frozen

from income_client.clock import Clock
from income_client.settings import OAuth2ClientCredentials, Secret

from .callback_answer import CallbackAnswer
from .callback_sender import Post, send
from .callback_target import CallbackTarget
from .callback_tokens import CallbackCredentials

_JSON_TYPE: Final = ("Content-Type", "application/json")
_CLOSED: Final = "closed"


@frozen(kw_only=True)
class Parcel:
    """What every attempt carries besides its credentials."""

    body: bytes = field(repr=False)
    """The content."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Header fields, each in place of the usual ones of its name."""


class Journey:
    """One parcel's attempts so far.

    Attributes:
        attempts: what each came to.
        last: the last answer.
    """

    def __init__(self) -> None:
        self.attempts: list[int | str] = []
        self.last: CallbackAnswer = CallbackAnswer(fault=_CLOSED)

    def note(self, answer: CallbackAnswer) -> None:
        """Add what one more attempt came to."""
        self.attempts.append(answer.outcome)
        self.last = answer


class CallbackPost:
    """Sends parcels to endpoints of this machine, several at a time.

    Args:
        clock: what pauses and the life of tokens go by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._credentials = CallbackCredentials(clock)
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def deliver(self, target: CallbackTarget, parcel: Parcel) -> Journey:
        """Send until it is taken or the target gives up; raises nothing but cancellation.

        Once this is closed nothing is sent, and every journey is one ``closed``.
        """
        journey = Journey()
        if self._is_closed:
            journey.note(CallbackAnswer(fault=_CLOSED))
            return journey
        task = asyncio.create_task(self._travel(target, parcel, journey))
        self._under_way.add(task)
        try:
            await asyncio.wait({task})
        finally:
            self._under_way.discard(task)
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if task.cancelled():
            journey.note(CallbackAnswer(fault=_CLOSED))
        else:
            task.result()
        return journey

    def open(self) -> None:
        """Send again after `close`."""
        self._is_closed = False

    async def close(self) -> None:
        """End what is under way, as ``closed``, and send nothing more."""
        self._is_closed = True
        tasks = tuple(self._under_way)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _travel(self, target: CallbackTarget, parcel: Parcel, journey: Journey) -> None:
        resent = 0
        may_renew = target.renews_on_401 and isinstance(target.auth, OAuth2ClientCredentials)
        while True:
            authorization = await self._credentials.of(target)
            if isinstance(authorization, CallbackAnswer):
                answer = authorization
            else:
                answer = await _send(target, parcel, authorization)
            journey.note(answer)
            is_refused = answer.status == HTTPStatus.UNAUTHORIZED
            if is_refused and may_renew and isinstance(authorization, Secret):
                may_renew = False
                self._credentials.drop(target, authorization)
                continue
            pause = target.pause_after(answer, resent)
            if pause is None:
                return
            resent += 1
            await self._clock.sleep(pause)


async def _send(
    target: CallbackTarget, parcel: Parcel, authorization: Secret | None
) -> CallbackAnswer:
    usual = [_JSON_TYPE]
    if authorization is not None:
        usual.append(("Authorization", authorization.reveal()))
    given = {name.lower() for name, _ in parcel.headers}
    headers = (*(one for one in usual if one[0].lower() not in given), *parcel.headers)
    post = Post(
        url=target.url,
        headers=headers,
        body=parcel.body,
        tls=target.tls_for(target.url),
        timeout=target.timeout,
    )
    return await send(post)
