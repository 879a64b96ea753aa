"""A command on an emulated service in the test's own process, and what to wait for meanwhile."""

import asyncio
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from attrs import frozen

from income_client.emulator import Emulator
from tests.cli.entry import run, running


def variables(service: Emulator) -> dict[str, str]:
    """Return the environment that leads the command to a service."""
    return {
        "INCOME_BASE_URL": service.url,
        "INCOME_CLIENT_ID": service.oauth2.client_id,
        "INCOME_CLIENT_SECRET": service.oauth2.client_secret.reveal(),
    }


@frozen
class ServiceCommand:
    """A command on one service."""

    service: Emulator
    """What it reads."""

    def line(self, *arguments: str) -> tuple[str, ...]:
        """Return the command line with some arguments."""
        return arguments

    async def run(self, *arguments: str, **changes: str) -> "subprocess.CompletedProcess[str]":
        """Run it to its end while the service goes on."""
        return await asyncio.to_thread(
            run, *self.line(*arguments), **{**variables(self.service), **changes}
        )

    def started(
        self, *arguments: str, **options: Any
    ) -> "AbstractContextManager[subprocess.Popen[str]]":
        """Run it beside what happens inside; nothing of it is left afterwards."""
        together: dict[str, Any] = {**variables(self.service), **options}
        return running(*self.line(*arguments), **together)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds that another process brings about."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.01)


async def ended(process: "subprocess.Popen[str]") -> tuple[str | None, str]:
    """Wait for a process, and return what it wrote to both streams; None if not to a pipe."""
    return await asyncio.to_thread(process.communicate, timeout=50)
