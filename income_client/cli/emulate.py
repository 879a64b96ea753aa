"""``income-client emulate``: runs the emulated service until it is interrupted."""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from cyclopts import Parameter
from cyclopts.validators import Number

from income_client.emulator import Emulator
from income_client.emulator.seconds import stamp

_STRIDE: Final = 7919
"""From one updated application to the next: a prime, so that each has its turn."""


async def emulate(
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 0,
    applications: Annotated[int, Parameter(validator=Number(gte=0))] = 5000,
    seed: int = 7,
    start: Literal["now"] | datetime = "now",
    latency: Annotated[float, Parameter(validator=Number(gte=0))] = 0.0,
    updates: Annotated[float, Parameter(validator=Number(gte=0))] = 0.0,
    basic: Annotated[bool, Parameter(negative="--oauth", show_default=False)] = False,
) -> int:
    """Run the emulated service on loopback until Ctrl-C or SIGTERM.

    Args:
        port: where to listen; 0 takes a free port.
        applications: how many the service holds.
        seed: what everything invented hangs on.
        start: service time at the beginning, in ISO 8601; UTC if it has no zone.
        latency: seconds that each reply takes.
        updates: how many applications change in a second, each some other one.
        basic: print Basic credentials, else OAuth ones; the service takes both.

    Returns:
        The exit status: 1 if the port cannot be had.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    service = Emulator(
        applications,
        seed=seed,
        start=_service_time(start),
        time_flows=True,
        latency=latency,
        port=port,
    )
    try:
        await service.start()
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        print(f"income-client: cannot listen on port {port}: {reason}", file=sys.stderr)
        return 1
    try:
        print(*_lines(service, basic=basic), sep="\n", flush=True)
        await _update(service, updates, stop)
    finally:
        await service.close()
    return 0


async def _update(service: Emulator, updates: float, stop: asyncio.Event) -> None:
    """Update one application after the other until it is to stop."""
    ids = service.world.ids
    turn, pause = 0, 1 / updates if updates and ids else None
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stop.wait()
            return
        service.touch(ids[turn * _STRIDE % len(ids)])
        turn += 1


def _service_time(start: datetime | str) -> datetime:
    moment = datetime.now(UTC) if isinstance(start, str) else start
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC)
    return moment.replace(tzinfo=None, microsecond=0)


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
    yield f"# Its files: income-client download --to files --allow-host {host} {_some_id(service)}"


def _some_id(service: Emulator) -> str:
    return service.world.ids[0] if service.world.ids else "APPLICATION_ID"
