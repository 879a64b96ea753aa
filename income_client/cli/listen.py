"""``income-client listen``: a real receiver on a port, whose callbacks become lines."""

import json
import logging
import re
import signal
import socket
import sys
from asyncio import Event
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from attrs import define, field, frozen
from cyclopts import Parameter
from cyclopts.validators import Number

from income_client import ConfigurationError, IncomeClientError
from income_client.emulator.exchange import is_loopback
from income_client.receivers import (
    Callback,
    CallbackBasicAuth,
    CallbackBearerAuth,
    CallbackReceiver,
    CallbackTokenIssuer,
    ReceiverStatus,
)
from income_client.system.texts import printable, reason_of

from .callback_credentials import callback_basic, callback_client
from .exit_status import ExitStatus
from .options import Switch, Whole
from .output import OutputLines, UnwritableError, say
from .progress import filter_log
from .rows import AlignedLines
from .signals import StopSignals

_EXACTLY: Final = msgspec.json.Encoder(decimal_format="number")
_NOT_ASCII: Final = re.compile(r"[^ -~]")
_PATH: Final = re.compile(r"/[A-Za-z0-9._~/-]*")
_MOST_PATHS: Final = 10
_LONGEST_SHOWN: Final = 100


async def listen(
    *,
    port: Annotated[Whole, Parameter(metavar="PORT", validator=Number(gte=0, lte=65535))] = 9000,
    host: Annotated[str, Parameter(metavar="HOST")] = "127.0.0.1",
    path: Annotated[str, Parameter(metavar="PATH")] = "/callbacks",
    token_path: Annotated[str, Parameter(metavar="PATH")] = "/token",  # noqa: S107 - no secret
    payload: Switch = False,
    show_personal_data: Switch = False,
) -> int:
    """Receive callbacks and print each as a line, until Ctrl-C or SIGTERM.

    On a terminal, a line is the time, the application, the event and the
    reference. In a file or a pipe it is JSON.

    Callbacks must carry INCOME_CALLBACK_USERNAME and INCOME_CALLBACK_PASSWORD, or
    a token that --token-path issues for INCOME_CALLBACK_CLIENT_ID and
    INCOME_CALLBACK_CLIENT_SECRET. Refused requests are reported on standard error.
    TLS is for a proxy or a tunnel before this command.

    A callback is answered with 200 once its line is written, and with 503 where
    that fails, so that the service can send it again. The exit status is 0 after
    SIGTERM.

    To try it, run income-client emulate --callbacks http://127.0.0.1:9000/callbacks,
    with the same user name and password, and income-client trigger.

    Example: income-client listen --path /hooks/income

    Args:
        port: Port to listen on; 0 takes a free one.
        host: Name or address of this machine to listen on.
        path: Path that callbacks come to.
        token_path: Path that issues tokens, if a client id and secret are set.
        payload: Include the payload, which may hold personal data.
        show_personal_data: Write the JSON to a terminal too.
    """
    # They load aiohttp, which the help does not need.
    from income_client.receivers.aiohttp import routes
    from income_client.receivers.aiohttp_server import serving

    text_of = _text_of(payload=payload, show_personal_data=show_personal_data)
    _check_paths(path, token_path)
    basic, client = callback_basic(), callback_client()
    if basic is None and client is None:
        raise ConfigurationError(
            "set INCOME_CALLBACK_USERNAME and INCOME_CALLBACK_PASSWORD, or "
            "INCOME_CALLBACK_CLIENT_ID and INCOME_CALLBACK_CLIENT_SECRET"
        )
    if not is_loopback(f"[{host}]" if ":" in host else host):
        say("without TLS before it, the network can read the credentials")
    stop = Event()
    intake = _Intake(text_of, stop.set)
    issuer = None if client is None else CallbackTokenIssuer(client.client_id, client.client_secret)
    checks: list[CallbackBasicAuth | CallbackBearerAuth] = []
    if basic is not None:
        checks.append(CallbackBasicAuth(basic.username, basic.password))
    if issuer is not None:
        checks.append(issuer.auth)
    receiver = CallbackReceiver(intake.take_callback, auth=checks)
    filter_log(_with_peer)
    signals = StopSignals(stop.set)
    served = routes(receiver, path) + ([] if issuer is None else routes(issuer, token_path))
    server = serving(served, host=host, port=port, on_unknown=_Elsewhere(path))
    async with AsyncExitStack() as stack:
        url = await _start_server(stack.enter_async_context(server), f"--host {host} --port {port}")
        say(f"listening for callbacks at {url}{path}")
        if issuer is not None:
            say(f"issuing tokens for them at {url}{token_path}")
        await stop.wait()
    _say_refusals(receiver.status)
    if intake.error is not None:
        raise intake.error
    return ExitStatus.INTERRUPTED if signals.received is signal.SIGINT else ExitStatus.DONE


def _say_refusals(status: ReceiverStatus) -> None:
    if status.refused:
        counts = ", ".join(f"{why} {count:,}" for why, count in sorted(status.refused.items()))
        say(f"{status.handled:,} taken; refused: {counts}")


async def _start_server(server: Awaitable[str], where: str) -> str:
    try:
        return await server
    except OSError as error:
        reason = "no such host" if isinstance(error, socket.gaierror) else reason_of(error)
        raise IncomeClientError(f"{where}: {reason}") from None


def _check_paths(path: str, token_path: str) -> None:
    for name, value in (("--path", path), ("--token-path", token_path)):
        if _PATH.fullmatch(value) is None:
            raise ConfigurationError(f"{name} must be a path such as /callbacks")
    if path == token_path:
        raise ConfigurationError("--path and --token-path are the same")


def _text_of(*, payload: bool, show_personal_data: bool) -> Callable[[Callback], bytes]:
    if show_personal_data or not sys.stdout.isatty():
        return partial(_json_line, payload=payload)
    if payload:
        raise ConfigurationError("--payload on a terminal needs --show-personal-data")
    return partial(_masked_line, AlignedLines())


def _json_line(callback: Callback, *, payload: bool) -> bytes:
    """Return a callback as a line of ASCII JSON, which cannot control a terminal."""
    facts: dict[str, Any] = {
        "received_at": callback.received_at.isoformat(),
        "event_type": callback.event_type,
        "application_id": callback.application_id,
        "application_reference_id": callback.application_reference_id,
        "is_repeat": callback.is_repeat,
    }
    if payload:
        facts["payload"] = callback.payload
    text = _EXACTLY.encode(facts).decode()
    return _NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], text).encode("ascii")


def _masked_line(lines: AlignedLines, callback: Callback) -> bytes:
    return lines.line(
        f"{callback.received_at:%H:%M:%SZ}",
        callback.application_id or "-",
        callback.event_type or "-",
        callback.application_reference_id or "-",
        "repeat" if callback.is_repeat else "",
        optional=3,
    )


class _NotTakenError(Exception):
    """A callback could not be written, so that the service has to send it again."""


@define
class _Intake:
    """Writes callbacks to standard output."""

    _text_of: Callable[[Callback], bytes]
    _stop: Callable[[], None]
    _lines: OutputLines = field(factory=OutputLines)
    error: BrokenPipeError | UnwritableError | None = None
    """Error of standard output; None while it can be written."""

    async def take_callback(self, callback: Callback) -> None:
        """Write a callback before it is answered."""
        if self.error is None:
            try:
                self._lines.write(self._text_of(callback))
            except (BrokenPipeError, UnwritableError) as error:
                self.error = error
                self._stop()
        if self.error is not None:
            raise _NotTakenError


@frozen
class _Elsewhere:
    """Reports requests to other paths than the callback path, once for each of the first ones."""

    _path: str
    _reported: set[str] = field(factory=set)

    def __call__(self, path: str) -> None:
        """Report a request's path."""
        if path not in self._reported and len(self._reported) < _MOST_PATHS:
            self._reported.add(path)
            printable_path = printable(path[:_LONGEST_SHOWN])
            say(f"nothing is received at {printable_path}; callbacks must go to {self._path}")


def _with_peer(record: logging.LogRecord) -> bool:
    """Add the refused client to warnings, and drop warnings that the command prints itself."""
    if peer := getattr(record, "peer", None):
        record.msg, record.args = f"{record.getMessage()} (from {peer})", ()
    is_failure = getattr(record, "reason", None) == "handler_failed"
    return record.levelno <= logging.WARNING and not is_failure
