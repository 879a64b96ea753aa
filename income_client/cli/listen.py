"""``income-client listen``: a real receiver on a port, whose callbacks become lines."""

import json
import logging
import os
import re
import secrets
import shlex
import signal
import socket
import ssl
import sys
import time
from asyncio import Event
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from attrs import define, field, frozen
from cyclopts import Parameter
from cyclopts.validators import Number
from yarl import URL

from income_client import (
    BasicAuth,
    Callback,
    CallbackBasicAuth,
    CallbackBearerAuth,
    CallbackClientCertificate,
    CallbackSourceNetworks,
    CallbackTokenIssuer,
    ConfigurationError,
    IncomeClientError,
)
from income_client.emulator.exchange import check_local_address, is_loopback
from income_client.receivers import (
    CallbackReceiver,
    ReceiverStatus,
    callback_ssl_context,
)
from income_client.texts import printable, reason_of

from .exit_status import ExitStatus
from .options import Switch, Whole
from .output import OutputLines, UnwritableError, say
from .progress import filter_log
from .rows import AlignedLines
from .running import CALLBACK_PREFIX, Credentials, announced, credentials_from
from .signals import StopSignals

_EXACTLY: Final = msgspec.json.Encoder(decimal_format="number")
_NOT_ASCII: Final = re.compile(r"[^ -~]")
_PATH: Final = re.compile(r"/[A-Za-z0-9._~/-]*")
_SECRET_BYTES: Final = 24
_NONCE_BYTES: Final = 16
_FORWARD_SECONDS: Final = 7.0
"""Less than a receiver waits for its handler."""
_MOST_PATHS: Final = 10
_LONGEST_SHOWN: Final = 100

Several = Annotated[list[str] | None, Parameter(negative=())]
Check = CallbackBasicAuth | CallbackBearerAuth | CallbackClientCertificate | CallbackSourceNetworks


async def listen(
    *,
    port: Annotated[Whole, Parameter(metavar="PORT", validator=Number(gte=0, lte=65535))] = 9000,
    host: Annotated[str, Parameter(metavar="HOST")] = "127.0.0.1",
    path: Annotated[str, Parameter(metavar="PATH")] = "/callbacks",
    token_path: Annotated[str, Parameter(metavar="PATH")] = "/token",  # noqa: S107 - no secret
    network: Annotated[Several, Parameter(metavar="NETWORK")] = None,
    trusted_proxy: Annotated[Several, Parameter(metavar="ADDRESS")] = None,
    certificate: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    key: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    client_ca: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    subject: Annotated[Several, Parameter(metavar="SUBJECT")] = None,
    san: Annotated[Several, Parameter(metavar="NAME")] = None,
    forward_to: Annotated[str | None, Parameter(metavar="URL")] = None,
    payload: Switch = False,
    show_personal_data: Switch = False,
) -> int:
    """Receive callbacks and print each as a line, until Ctrl-C or SIGTERM.

    On a terminal, a line is the time, the application, the event and the
    reference. In a file or a pipe it is JSON.

    To try it, run income-client emulate, income-client listen and income-client
    trigger, each in a terminal of its own.

    A callback is answered with 200 once its line is written and, with
    --forward-to, the application there has answered 200. Otherwise it is answered
    with 503, so that the service can send it again. Refused requests are reported
    on standard error.

    Callbacks must carry INCOME_CALLBACK_USERNAME and INCOME_CALLBACK_PASSWORD, or
    a token that --token-path issues for INCOME_CALLBACK_CLIENT_ID and
    INCOME_CALLBACK_CLIENT_SECRET. If none of these are set and only this machine
    can connect, a password is made up, which emulate finds by itself. The exit
    status is 0 after SIGTERM.

    Example: income-client listen --forward-to http://127.0.0.1:8000/hook

    Args:
        port: Port to listen on; 0 takes a free one.
        host: Name or address of this machine to listen on.
        path: Path that callbacks come to.
        token_path: Path that issues tokens, if a client id and secret are set.
        network: Address or network that callbacks may come from. Can be repeated.
        trusted_proxy: Address of a proxy whose X-Forwarded-For is believed. Can be repeated.
        certificate: File with the server's certificate, for TLS.
        key: File with its private key.
        client_ca: File with the authorities whose client certificates are required.
        subject: Accepted subject of a client certificate, as CN=name. Can be repeated.
        san: Accepted alternative name of a client certificate. Can be repeated.
        forward_to: Address on this machine that each callback is posted to first.
        payload: Include the payload, which may hold personal data.
        show_personal_data: Write the JSON to a terminal too.
    """
    # They load aiohttp, which the help does not need.
    from income_client.receivers.aiohttp import routes
    from income_client.receivers.aiohttp_server import serving

    text_of = _text_of(payload=payload, show_personal_data=show_personal_data)
    _check_paths(path, token_path)
    has_pins = bool(subject or san)
    context = _tls_context(certificate, key, client_ca, has_pins=has_pins)
    is_local = is_loopback(f"[{host}]" if ":" in host else host)
    credentials = credentials_from(os.environ, CALLBACK_PREFIX)
    is_made_up = credentials == Credentials() and client_ca is None
    if is_made_up:
        credentials = _made_up(is_local=is_local)
    if not is_local and context is None:
        say("no --certificate: without TLS before it, the network can read the credentials")
    stop = Event()
    issuer, client = None, credentials.oauth2
    if client is not None:
        issuer = CallbackTokenIssuer(client.client_id, client.client_secret)
    forward = None
    if forward_to is not None:
        check_local_address("--forward-to", forward_to)
        forward = _Forwarding(forward_to, credentials.basic, issuer)
    intake = _Intake(text_of, forward, stop.set)
    pins = CallbackClientCertificate(subject=subject, san=san or (), any_from_ca=not has_pins)
    checks = [*_checks_of(credentials, issuer, network), *([pins] if client_ca else [])]
    receiver = CallbackReceiver(
        intake.take_callback, auth=checks, trusted_proxies=trusted_proxy or ()
    )
    filter_log(_with_peer)
    signals = StopSignals(stop.set)
    served = routes(receiver, path) + ([] if issuer is None else routes(issuer, token_path))
    async with AsyncExitStack() as stack:
        server = serving(served, host=host, port=port, ssl=context, on_unknown=_Elsewhere(path))
        url = await _start_server(stack.enter_async_context(server), f"--host {host} --port {port}")
        if forward is not None:
            forward.check_target(f"{url}{path}")
        if is_local and context is None:
            facts = {"url": f"{url}{path}", "token_url": f"{url}{token_path}"}
            stack.enter_context(announced("listen", {**facts, **credentials.facts()}))
        say(f"listening for callbacks at {url}{path}")
        if issuer is not None:
            say(f"issuing tokens for them at {url}{token_path}")
        if is_made_up:
            _show_made_up(credentials)
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
        raise IncomeClientError(f"{where}: {reason}")


def _check_paths(path: str, token_path: str) -> None:
    for name, one in (("--path", path), ("--token-path", token_path)):
        if _PATH.fullmatch(one) is None:
            raise ConfigurationError(f"{name} must be a path such as /callbacks")
    if path == token_path:
        raise ConfigurationError("--path and --token-path are the same")


def _tls_context(
    certificate: Path | None, key: Path | None, client_ca: Path | None, *, has_pins: bool
) -> ssl.SSLContext | None:
    if has_pins and client_ca is None:
        raise ConfigurationError("--subject and --san need --client-ca")
    if certificate is not None and key is not None:
        return callback_ssl_context(certificate, key, client_ca)
    if not (certificate is None and key is None and client_ca is None):
        raise ConfigurationError("TLS needs --certificate and --key")
    return None


def _checks_of(
    credentials: Credentials, issuer: CallbackTokenIssuer | None, networks: list[str] | None
) -> Iterator[Check]:
    if credentials.basic is not None:
        yield CallbackBasicAuth(credentials.basic.username, credentials.basic.password)
    if issuer is not None:
        yield issuer.auth
    if networks:
        yield CallbackSourceNetworks(networks)


def _made_up(*, is_local: bool) -> Credentials:
    if not is_local:
        raise ConfigurationError(
            "other machines can connect: set INCOME_CALLBACK_USERNAME and "
            "INCOME_CALLBACK_PASSWORD, or INCOME_CALLBACK_CLIENT_ID and "
            "INCOME_CALLBACK_CLIENT_SECRET"
        )
    return Credentials(basic=BasicAuth("callbacks", secrets.token_urlsafe(_SECRET_BYTES)))


def _show_made_up(credentials: Credentials) -> None:
    say("no credentials are set; these are made up, and emulate finds them")
    # Elsewhere than on a terminal they would stay in a log.
    if sys.stderr.isatty():
        for name, value in credentials.facts().items():
            print(f"export {CALLBACK_PREFIX}{name}={shlex.quote(value)}", file=sys.stderr)


def _text_of(*, payload: bool, show_personal_data: bool) -> Callable[[Callback], bytes]:
    if show_personal_data or not sys.stdout.isatty():
        return partial(_json_line, payload=payload)
    if payload:
        raise ConfigurationError("--payload on a terminal needs --show-personal-data")
    return partial(_masked_line, AlignedLines())


def _json_line(callback: Callback, *, payload: bool) -> bytes:
    """Return a line of ASCII: no character of a payload can act on a terminal."""
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
    return _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text).encode("ascii")


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
    """A callback was not forwarded or not written, so that it has to be sent again."""


@define
class _Intake:
    """Forwards callbacks, and writes those that were forwarded."""

    _text_of: Callable[[Callback], bytes]
    _forward: "_Forwarding | None"
    _stop: Callable[[], None]
    _lines: OutputLines = field(factory=OutputLines)
    error: BrokenPipeError | UnwritableError | None = None
    """Why standard output cannot be written any more."""

    async def take_callback(self, callback: Callback) -> None:
        """Forward a callback, then write it: a line is a callback that was taken.

        One that was forwarded and could not be written is forwarded again when it is resent.
        """
        if self.error is None and self._forward is not None:
            await self._forward.post(callback)
        if self.error is None:  # another one may have found out meanwhile
            try:
                self._lines.write(self._text_of(callback))
            except (BrokenPipeError, UnwritableError) as error:
                self.error = error
                self._stop()
        if self.error is not None:
            raise _NotTakenError


@frozen
class _Forwarding:
    """Posts callbacks to an address of this machine, with credentials like the service's."""

    _url: str
    _basic: BasicAuth | None
    _issuer: CallbackTokenIssuer | None

    def check_target(self, own: str) -> None:
        """Raise if this leads back to where callbacks come in, by any name and spelling."""
        here, there = URL(own), URL(self._url)
        if (there.port, there.path) == (here.port, here.path):
            raise ConfigurationError("--forward-to leads back here")

    async def post(self, callback: Callback) -> None:
        """Post a callback, and raise unless the answer is 200."""
        from income_client.emulator.callbacks import post

        headers = [("Content-Type", "application/json"), *self._authorization_headers()]
        body = b"" if callback.payload is None else _EXACTLY.encode(callback.payload)
        answer = await post(self._url, body, headers=tuple(headers), seconds=_FORWARD_SECONDS)
        if answer.outcome != HTTPStatus.OK:
            is_status = isinstance(answer.outcome, int)
            text = f"answered {answer.outcome}" if is_status else f"no answer ({answer.outcome})"
            say(f"--forward-to: {text}; the callback is answered with 503")
            raise _NotTakenError

    def _authorization_headers(self) -> list[tuple[str, str]]:
        if self._basic is not None:
            return [("Authorization", self._basic.authorization().reveal())]
        if self._issuer is not None:
            token = self._issuer.issue(now=time.time(), nonce=secrets.token_bytes(_NONCE_BYTES))
            return [("Authorization", f"Bearer {token}")]
        return []


@frozen
class _Elsewhere:
    """Reports requests to other paths than that of callbacks, the first few that differ."""

    _path: str
    _reported: set[str] = field(factory=set)

    def __call__(self, path: str) -> None:
        """Report one."""
        if path not in self._reported and len(self._reported) < _MOST_PATHS:
            self._reported.add(path)
            shown = printable(path[:_LONGEST_SHOWN])
            say(f"nothing is received at {shown}; callbacks must go to {self._path}")


def _with_peer(record: logging.LogRecord) -> bool:
    """Have warnings name who was refused, and leave out what this command prints itself."""
    if peer := getattr(record, "peer", None):
        record.msg, record.args = f"{record.getMessage()} (from {peer})", ()
    is_failure = getattr(record, "reason", None) == "handler_failed"
    return record.levelno <= logging.WARNING and not is_failure
