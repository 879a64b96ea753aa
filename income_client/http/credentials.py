"""Credentials from a client's ``auth`` function, with a time limit, never asked twice at once.

The function is foreign code: it may raise anything, return anything, or never return.
"""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import isawaitable
from typing import Final

from attrs import frozen

from income_client.errors import AuthenticationError, TokenError
from income_client.settings import Auth, AuthFunction, is_plain_function, wrong

from .tokens import Token

_CALL: Final = "credentials"


class SecretFileError(Exception):
    """Credentials cannot be read from their file; its text shows nothing of what the file holds."""


@frozen
class _Failed:
    """The failure of a client's function for credentials."""

    reason: str


class CredentialSource:
    """A client's function for credentials, called with a time limit, never twice at a time.

    Only a renewal of a `TokenCache` calls it. If an earlier call's thread has not returned yet, the
    next call waits for the answer of that thread.
    """

    def __init__(self, function: AuthFunction, seconds: float) -> None:
        self._function = function
        self._seconds = seconds
        self._thread: asyncio.Future[object] | None = None

    async def obtain_token(self, request_token: Callable[[Auth], Awaitable[Token]]) -> Token:
        """Return a token for the current credentials, or for newer ones if they are refused."""
        auth = await self.ask()
        try:
            return await request_token(auth)
        except AuthenticationError:
            newer = await self.ask()
            if newer == auth:
                raise
        return await request_token(newer)

    async def ask(self) -> Auth:
        """Return the current credentials.

        Raises:
            TokenError: the function has raised something, or has not returned in time.
            ConfigurationError: it has returned something else.
        """
        answer: object
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._answer()
        except TimeoutError:
            answer = _Failed(f"has not returned within {self._seconds:g} s")
        if isinstance(answer, _Failed):
            message = f"the function of auth {answer.reason}"
            raise TokenError(message, retryable=True, call=_CALL)
        if not isinstance(answer, Auth):
            kind = type(answer).__name__
            raise wrong("auth", f"must return BasicAuth or OAuth2ClientCredentials, not {kind}")
        return answer

    async def _answer(self) -> object:
        """Call the function and return its credentials, or its failure."""
        answer: object
        try:
            if is_plain_function(self._function):
                answer = await self._answer_of_thread()
            else:
                answer = self._function()
            return await answer if isawaitable(answer) else answer
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return _failure_of(error)
        except Exception as error:  # noqa: BLE001 - the function is foreign code
            return _failure_of(error)

    async def _answer_of_thread(self) -> object:
        if self._thread is None:
            self._thread = _run_in_thread(self._function)
        # Unlike awaiting the future, this does not cancel it: its thread runs on.
        await asyncio.wait((self._thread,))
        answer, self._thread = self._thread.result(), None
        return answer


def _run_in_thread(function: Callable[[], object]) -> asyncio.Future[object]:
    """Call a function in a thread, which delays neither the loop nor the program's end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()

    def run() -> None:
        answer: object
        try:
            answer = function()
        except BaseException as error:  # noqa: BLE001 - a thread would print it
            answer = _failure_of(error)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(future.set_result, answer)

    work = contextvars.copy_context().run
    threading.Thread(target=work, args=(run,), name="income_client auth", daemon=True).start()
    return future


def _failure_of(error: BaseException) -> _Failed:
    if isinstance(error, SecretFileError):
        return _Failed(f"has failed: {error}")
    return _Failed(f"has raised {type(error).__name__}")
