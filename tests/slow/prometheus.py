"""A Prometheus of the machine, which scrapes programs of a test and evaluates the guide's rules."""

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from aiohttp import ClientConnectionError, ClientSession
from attrs import frozen

from tests.slow.callback_processes import free_port
from tests.support.pages import contents

T = TypeVar("T")

SERVER: Final = shutil.which("prometheus")
"""The server; None if there is none."""
PROMTOOL: Final = shutil.which("promtool")
"""The program that tests rules; None if there is none."""
(RULES,) = contents("yaml")
"""The guide's alert rules."""
_STATE_SECONDS: Final = 40.0
"""Longest wait for an alert to fire or to end."""


@frozen
class Prometheus:
    """A running server."""

    url: str
    session: ClientSession

    async def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        async with self.session.get(f"{self.url}/api/v1/alerts") as reply:
            alerts = (await reply.json())["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    async def values(self, query: str) -> list[float]:
        """Return the present values of a query, in ascending order."""
        async with self.session.get(f"{self.url}/api/v1/query", params={"query": query}) as reply:
            samples: list[Any] = (await reply.json())["data"]["result"]
        return sorted(float(sample["value"][1]) for sample in samples)

    async def wait_for(self, *names: str) -> None:
        """Wait until these alerts fire, and no others."""
        await _wait_for(self.firing, set(names))

    async def wait_for_values(self, query: str, *values: float) -> None:
        """Wait until a query has these values."""
        await _wait_for(partial(self.values, query), list(values))


@contextlib.asynccontextmanager
async def prometheus(folder: Path, ports: Sequence[int], rules: str) -> AsyncIterator[Prometheus]:
    """Run a server that scrapes the ports five times a second."""
    assert SERVER is not None
    targets = [f"127.0.0.1:{port}" for port in ports]
    (folder / "alerts.yml").write_text(rules, "utf-8")
    (folder / "prometheus.yml").write_text(
        f"""
global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}}
rule_files: [alerts.yml]
scrape_configs: [{{job_name: income, static_configs: [{{targets: {targets}}}]}}]
""",
        "utf-8",
    )
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        SERVER,
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        async with ClientSession() as session:
            url = f"http://127.0.0.1:{port}"
            await _until_ready(session, url, process)
            yield Prometheus(url, session)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


async def _wait_for(ask: Callable[[], Awaitable[T]], expected: T) -> None:
    """Ask until the answer is as expected."""
    answer: T | None = None
    try:
        async with asyncio.timeout(_STATE_SECONDS):
            while (answer := await ask()) != expected:  # noqa: ASYNC110 - another process answers
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{answer}, and not {expected}") from None


async def _until_ready(
    session: ClientSession, url: str, process: asyncio.subprocess.Process
) -> None:
    async with asyncio.timeout(_STATE_SECONDS):
        while True:
            assert process.returncode is None, "Prometheus has ended"
            with contextlib.suppress(ClientConnectionError):
                async with session.get(f"{url}/-/ready") as reply:
                    if reply.ok:
                        return
            await asyncio.sleep(0.05)
