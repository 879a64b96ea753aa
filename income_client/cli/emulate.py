"""``income-client emulate``: runs the emulated service until it is interrupted."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from income_client.emulator import Emulator


async def emulate(
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 0,
    applications: Annotated[int, Parameter(validator=Number(gte=0))] = 5000,
    seed: int = 7,
    basic: Annotated[bool, Parameter(negative="--oauth")] = False,
) -> int:
    """Run the emulated service on loopback until Ctrl-C or SIGTERM.

    Args:
        port: where to listen; 0 takes a free port.
        applications: how many the service holds.
        seed: what everything invented hangs on.
        basic: print Basic credentials rather than OAuth ones; both are accepted.

    Returns:
        The exit status: 1 if the port cannot be had.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    service = Emulator(applications, seed=seed, port=port, time_flows=True)
    try:
        await service.start()
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        print(f"income-client: cannot listen on port {port}: {reason}", file=sys.stderr)
        return 1
    try:
        print(*_lines(service, basic=basic), sep="\n", flush=True)
        await stop.wait()
    finally:
        await service.close()
    return 0


def _lines(service: Emulator, *, basic: bool) -> Iterator[str]:
    yield f"# {len(service.world):,} invented applications at {service.url}; Ctrl-C ends it."
    variables = {"INCOME_BASE_URL": service.url}
    if basic:
        variables["INCOME_USERNAME"] = service.basic.username
        variables["INCOME_PASSWORD"] = service.basic.password.reveal()
    else:
        variables["INCOME_CLIENT_ID"] = service.oauth2.client_id
        variables["INCOME_CLIENT_SECRET"] = service.oauth2.client_secret.reveal()
    for name, value in variables.items():
        yield f"export {name}={shlex.quote(value)}"
