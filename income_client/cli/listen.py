"""``income-client listen``: a real receiver on a port, whose callbacks become lines of JSON."""

import asyncio
import re
import shlex
import signal
import socket
import ssl
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from attrs import evolve
from cyclopts import Parameter
from cyclopts.validators import Number

from income_client import BasicAuth, ConfigurationError
from income_client.emulator.exchange import is_loopback
from income_client.receivers import CallbackReceiver, callback_ssl_context
from income_client.receivers.aiohttp import routes
from income_client.receivers.aiohttp_server import serving

from .callbacks.checks import CallbackChecks, callback_checks, made_up
from .callbacks.forwarding import Forwarding
from .callbacks.intake import CallbackIntake, Elsewhere, say_refusals
from .callbacks.lines import callback_line, shown_line
from .callbacks.options import read_credentials
from .exit_status import ExitStatus
from .options import MisuseError, Switch
from .output import reason_of
from .progress import StatusLine
from .signals import StopSignals

_STATUS: Final = {signal.SIGINT: ExitStatus.INTERRUPTED, signal.SIGTERM: ExitStatus.DONE}
_NOTHING_CHECKED: Final = (
    "set INCOME_CALLBACK_USERNAME and INCOME_CALLBACK_PASSWORD, or INCOME_CALLBACK_CLIENT_ID "
    "and INCOME_CALLBACK_CLIENT_SECRET: other machines than this one can ring here"
)
_PATH: Final = re.compile(r"/[A-Za-z0-9._~/-]*")

Several = Annotated[list[str] | None, Parameter(negative=())]


async def listen(
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 9000,
    host: str = "127.0.0.1",
    path: str = "/callbacks",
    token_path: str = "/token",  # noqa: S107 - where tokens are sold
    network: Several = None,
    trusted_proxy: Several = None,
    certificate: Path | None = None,
    key: Path | None = None,
    client_ca: Path | None = None,
    subject: Several = None,
    san: Several = None,
    forward_to: str | None = None,
    payload: Switch = False,
    show_personal_data: Switch = False,
) -> int:
    """Take callbacks at an address of your own, and print each as a line of JSON.

    A line tells when the callback came, its event and its application, and whether
    the same bytes came shortly before; on a terminal it is not JSON. It is written
    before the callback is answered with 200, and with --forward-to only once it has
    been handed on. What cannot be handed on or written is answered with 503, upon
    which the service is assumed to send it again. What else is not taken is told on
    standard error, by reason.

    The credentials that callbacks must carry come from the environment:
    INCOME_CALLBACK_USERNAME and INCOME_CALLBACK_PASSWORD, or, for tokens that are
    sold at --token-path, INCOME_CALLBACK_CLIENT_ID and
    INCOME_CALLBACK_CLIENT_SECRET; or both. Where none are set and only this
    machine can ring, some are made up and told. The exit status is 0 after
    SIGTERM, 130 after Ctrl-C, and 141 when nobody reads the output any more.

    Example: income-client listen --forward-to http://127.0.0.1:8000/hook

    Args:
        port: where to listen; 0 takes a free port.
        host: a name or an address of this machine.
        path: where callbacks come to.
        token_path: where tokens are sold, if a client id and secret are set.
        network: address or network that callbacks may come from; may stand several times.
        trusted_proxy: address of a proxy whose word about addresses is believed; likewise.
        certificate: file with the certificate for TLS.
        key: file with its private key.
        client_ca: file with the authorities whose certificates callbacks must come with.
        subject: subject of such a certificate, as CN=name; may stand several times.
        san: alternative name of such a certificate; any subject or name given will do.
        forward_to: address on this machine to which each callback is posted first.
        payload: write the whole payload too.
        show_personal_data: write whole lines to a terminal too; payloads may hold personal data.

    Returns:
        The exit status: 0 after SIGTERM, 130 after Ctrl-C, 1 for a failure, 2 for options
            that cannot be meant, or with which nothing would be checked.
    """
    line = StatusLine()
    is_for_a_person = sys.stdout.isatty() and not show_personal_data
    if payload and is_for_a_person:
        raise MisuseError(
            "--payload on a terminal may show personal data: add --show-personal-data"
        )
    _check_addresses(path, token_path)
    context = _tls(certificate, key, client_ca, has_pins=bool(subject or san))
    checks = callback_checks(
        read_credentials("INCOME_CALLBACK_"),
        networks=network or (),
        has_client_ca=client_ca is not None,
        subject=subject or (),
        san=san or (),
    )
    is_local = is_loopback(f"[{host}]" if ":" in host else host)
    is_made_up = not checks.has_identity
    if is_made_up and not is_local:
        line.say(_NOTHING_CHECKED)
        return ExitStatus.MISUSED
    if is_made_up:
        checks = evolve(checks, basic=made_up())
    if not is_local and context is None:
        line.say("no --certificate: a proxy must do TLS, or the network reads the credentials")
    forwarding = None if forward_to is None else _forwarding(forward_to, checks)
    stop = asyncio.Event()
    intake = CallbackIntake(
        line.say,
        stop.set,
        line_of=shown_line if is_for_a_person else partial(callback_line, payload=payload),
        forwarding=forwarding,
    )
    receiver = _receiver(intake, checks, trusted_proxy or ())
    say_refusals(line.say)
    elsewhere = Elsewhere(line.say, path)
    signals = StopSignals(stop.set)
    async with AsyncExitStack() as stack:
        served = routes(receiver, path)
        if checks.issuer is not None:
            served += routes(checks.issuer, token_path)
        server = serving(served, host=host, port=port, ssl=context, on_unknown=elsewhere)
        try:
            url = await stack.enter_async_context(server)
        except OSError as error:
            line.say(f"cannot listen on {host} port {port}: {_reason(error)}")
            return ExitStatus.FAILED
        if forwarding is not None and forwarding.leads_to(int(url.rpartition(":")[2]), path):
            raise MisuseError("--forward-to leads back here")
        line.say(f"callbacks are taken at {url}{path}")
        if checks.issuer is not None:
            line.say(f"tokens for them are sold at {url}{token_path}")
        if is_made_up and checks.basic is not None:
            print(*_exports(checks.basic, f"{url}{path}"), sep="\n", file=sys.stderr, flush=True)
        await stop.wait()
    return _status(intake, receiver, signals.received, line)


def _receiver(
    intake: CallbackIntake, checks: CallbackChecks, trusted_proxies: Sequence[str]
) -> CallbackReceiver:
    try:
        return CallbackReceiver(intake.take, auth=checks.checks(), trusted_proxies=trusted_proxies)
    except ConfigurationError as error:
        # Credentials were looked at before: what is left are networks and proxies.
        fault = error.message
    raise MisuseError(fault)


def _status(
    intake: CallbackIntake,
    receiver: CallbackReceiver,
    received: signal.Signals | None,
    line: StatusLine,
) -> int:
    refused = receiver.status.refused
    if refused:
        counts = ", ".join(f"{reason} {count:,}" for reason, count in sorted(refused.items()))
        line.say(f"{receiver.status.handled:,} taken; not taken: {counts}")
    if intake.is_unread:
        raise BrokenPipeError
    if intake.failure is not None:
        line.say(str(intake.failure))
        return ExitStatus.FAILED
    return ExitStatus.FAILED if received is None else _STATUS[received]


def _check_addresses(path: str, token_path: str) -> None:
    for name, one in (("--path", path), ("--token-path", token_path)):
        if _PATH.fullmatch(one) is None:
            raise MisuseError(f"{name} is a path such as /callbacks")
    if path == token_path:
        raise MisuseError("--path and --token-path are the same")


def _tls(
    certificate: Path | None, key: Path | None, client_ca: Path | None, *, has_pins: bool
) -> ssl.SSLContext | None:
    if has_pins and client_ca is None:
        raise MisuseError("--subject and --san need --client-ca")
    if certificate is not None and key is not None:
        return callback_ssl_context(certificate, key, client_ca)
    if not (certificate is None and key is None and client_ca is None):
        raise MisuseError("TLS needs --certificate and --key")
    return None


def _forwarding(url: str, checks: CallbackChecks) -> Forwarding:
    return Forwarding(url, basic=checks.basic, issuer=checks.issuer, oauth2=checks.oauth2)


def _reason(error: OSError) -> str:
    return "no such host" if isinstance(error, socket.gaierror) else reason_of(error)


def _exports(auth: BasicAuth, url: str) -> Iterator[str]:
    yield "# No credentials are set; these are made up, and good until this ends."
    yield f"export INCOME_CALLBACK_USERNAME={shlex.quote(auth.username)}"
    yield f"export INCOME_CALLBACK_PASSWORD={shlex.quote(auth.password.reveal())}"
    yield f"# To be called: income-client emulate --callbacks {url}"
