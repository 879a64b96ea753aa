"""``income-client emulate``: runs the emulated service until it is interrupted."""

import asyncio
import contextlib
import shlex
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from cyclopts import Parameter
from cyclopts.validators import Number

from income_client.emulator import Emulator
from income_client.emulator.times import stamp

from .callbacks.options import callback_target
from .callbacks.updates import UpdateCallbacks
from .emulating.fault_shares import FaultsOption, SharedFaults
from .emulating.rules import RuleOptions
from .exit_status import ExitStatus
from .options import Seconds, service_time
from .output import reason_of, say, write_text
from .signals import StopSignals

_STRIDE: Final = 7919
"""From one updated application to the next: a prime, so that each has its turn."""


async def emulate(
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 0,
    applications: Annotated[int, Parameter(validator=Number(gte=0))] = 5000,
    seed: int = 7,
    start: Literal["now"] | datetime = "now",
    latency: Seconds = 0.0,
    updates: Annotated[float, Parameter(validator=Number(gte=0))] = 0.0,
    basic: Annotated[bool, Parameter(negative="--oauth", show_default=False)] = False,
    faults: FaultsOption = (),
    rules: RuleOptions | None = None,
    callbacks: str | None = None,
    callback_token_url: str | None = None,
    callback_certificate: Path | None = None,
    callback_key: Path | None = None,
    callback_ca: Path | None = None,
) -> int:
    """Run the emulated service on loopback until Ctrl-C or SIGTERM.

    Prints the environment variables that lead a client to it, as lines for a
    shell. All data is invented, the credentials too; its updates lie in the 90
    days before --start. Service time passes, and so its present is yours unless
    you choose another. The exit status is 0 after SIGTERM and 130 after Ctrl-C.

    With --callbacks it sends callbacks, of --updates and of trigger, up to five
    times more where they are not taken, which is assumed of the service; the
    contract does not say. Their credentials come from the environment:
    INCOME_CALLBACK_USERNAME and INCOME_CALLBACK_PASSWORD, or
    INCOME_CALLBACK_CLIENT_ID and INCOME_CALLBACK_CLIENT_SECRET for tokens.

    With --faults things go wrong on a share of the requests, told at the end. A
    fault is a status from 400 on, or reset, drop, cut, stall, trickle or garbage;
    its share is a number up to 1 or a percentage, of all requests or of those that
    are named behind an @: list, application, documents, file, token. The same
    --seed has the same faults.

    Example: income-client emulate --port 8080 --faults 503:0.05,cut:10%@file

    Args:
        port: where to listen; 0 takes a free port.
        applications: how many the service holds.
        seed: what everything invented hangs on.
        start: service time at the beginning, in ISO 8601; UTC if it has no zone.
        latency: seconds that each reply takes.
        updates: how many applications change in a second, each some other one.
        basic: print Basic credentials, else OAuth ones; the service takes both.
        faults: what goes wrong, with its share of the requests, as 503:0.05,cut:10%@file.
        rules: how the service behaves where the contract is silent.
        callbacks: where callbacks go, on this machine; each of --updates fires one.
        callback_token_url: where tokens for them are bought, if they carry any.
        callback_certificate: file with the client certificate that they come with.
        callback_key: file with its private key.
        callback_ca: file with the authorities that vouch for where they go.

    Returns:
        The exit status: 0 after SIGTERM, 130 after Ctrl-C, 1 if the port cannot be had.
    """
    target = callback_target(
        callbacks,
        callback_token_url,
        certificate=callback_certificate,
        key=callback_key,
        ca=callback_ca,
    )
    stop = asyncio.Event()
    signals = StopSignals(stop.set)
    begins = service_time(datetime.now(UTC) if isinstance(start, str) else start)
    service = Emulator(
        applications,
        seed=seed,
        start=begins,
        time_flows=True,
        latency=latency,
        port=port,
        rules=(rules or RuleOptions()).rules,
        callbacks=target,
    )
    if isinstance(start, str):
        # The whole seconds that it begins with, and its making, are behind by now.
        present = datetime.now(UTC).replace(tzinfo=None)
        service.advance((present - begins).total_seconds())
    if faults:
        service.faults = SharedFaults(faults, seed=seed)
    try:
        await service.start()
    except OSError as error:
        say(f"cannot listen on port {port}: {reason_of(error)}")
        return ExitStatus.FAILED
    try:
        write_text(*_lines(service, basic=basic))
        await _update(service, updates, stop)
    finally:
        await service.close()
    if isinstance(service.faults, SharedFaults):
        say(service.faults.summary())
    return ExitStatus.INTERRUPTED if signals.received is signal.SIGINT else ExitStatus.DONE


async def _update(service: Emulator, updates: float, stop: asyncio.Event) -> None:
    """Update one application after the other until it is to stop."""
    ids = service.world.ids
    turn, pause = 0, 1 / updates if updates and ids else None
    async with UpdateCallbacks(service) as told:
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stop.wait()
                break
            name = ids[turn * _STRIDE % len(ids)]
            service.touch(name)
            told.fire(name)
            turn += 1
    summary = told.summary()
    if summary is not None:
        say(summary)


def _lines(service: Emulator, *, basic: bool) -> Iterator[str]:
    yield f"# {len(service.world):,} invented applications at {service.url}; Ctrl-C ends it."
    yield f"# Service time is {stamp(service.now)}, and passes."
    variables = {"INCOME_BASE_URL": service.url}
    if basic:
        variables["INCOME_USERNAME"] = service.basic.username
        variables["INCOME_PASSWORD"] = service.basic.password.reveal()
    else:
        variables["INCOME_CLIENT_ID"] = service.oauth2.client_id
        variables["INCOME_CLIENT_SECRET"] = service.oauth2.client_secret.reveal()
    for name, value in variables.items():
        yield f"export {name}={shlex.quote(value)}"
    host = urlsplit(service.url).hostname
    if service.callbacks is not None:
        where = service.callbacks.url.partition("?")[0]
        yield f"# Callbacks go to {where}; income-client trigger fires one."
        if service.callbacks.auth is None and service.callbacks.ssl is None:
            yield "# They carry no credentials: no INCOME_CALLBACK_... was set where this began."
    yield f"# Its files: income-client download --to files --allow-host {host} {_some_id(service)}"


def _some_id(service: Emulator) -> str:
    return service.world.ids[0] if service.world.ids else "APPLICATION_ID"
