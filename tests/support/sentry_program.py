"""A program with Sentry's SDK, all of whose calls end in an error that it captures.

It prints what would be sent, one envelope after the other.
"""

import asyncio
import sys
from pathlib import Path

import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.aiohttp import AioHttpIntegration
from sentry_sdk.transport import Transport

from tests.client.test_secrecy import CALLS, FAULTS, GOOD, OAUTH, Place, failing, place

ENDS = {"good": GOOD, **{name: FAULTS[name] for name in ("status 500", "not whole", "cut")}}
OWN = ("json",)
"""Calls whose result is plain data, which is the caller's to protect."""


class Printed(Transport):
    """Print what would be sent."""

    def capture_envelope(self, envelope: Envelope) -> None:
        """Print an envelope."""
        sys.stdout.write(envelope.serialize().decode("utf-8", "replace") + "\n")


async def use(call: str, at: Place) -> None:
    """Make a call in a frame that holds what a program holds, and fail."""
    auth, client = OAUTH, at.client
    result = await CALLS[call](at)
    raise LookupError(f"{type(auth)} {type(client)} {type(result)}")


async def main(folder: Path) -> None:
    """Capture the error of each call for each end."""
    for end, answer in ENDS.items():
        (folder / end).mkdir()
        async with place(failing(answer), folder / end) as at:
            for call in CALLS:
                if end == "good" and call in OWN:
                    continue
                with sentry_sdk.start_transaction(name=call):
                    try:
                        await use(call, at)
                    except Exception as error:  # noqa: BLE001 - captured
                        sentry_sdk.capture_exception(error)


if __name__ == "__main__":
    sentry_sdk.init(
        dsn="http://key@127.0.0.1:9/1",
        transport=Printed,
        include_local_variables=True,
        attach_stacktrace=True,
        send_default_pii=True,
        traces_sample_rate=1.0,
        disabled_integrations=[AioHttpIntegration()],
    )
    asyncio.run(main(Path(sys.argv[1])))
