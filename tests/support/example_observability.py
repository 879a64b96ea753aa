"""How the examples of the guide that watch a client are run, and what must come of each."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aiohttp import ClientSession

from income_client.emulator import Emulator
from tests.support.callback_processes import free_port
from tests.support.example_polling import alive, begun, lines_of, updated
from tests.support.examples import RunExample


async def measures(service: Emulator, path: Path) -> None:
    """A thread of its own shows Prometheus what the events have set."""
    async with alive(service, path, PORT=str(free_port())):
        await begun(path.parent / "measured.db")
    new, port = updated(service, range(3, 6)), free_port()
    async with alive(service, path, PORT=str(port)) as process, ClientSession() as session:
        assert sorted(await lines_of(process, 3)) == new
        shown = ""
        async with asyncio.timeout(30):
            while "income_polls_total 1.0" not in shown:
                await asyncio.sleep(0.01)
                async with session.get(f"http://127.0.0.1:{port}/metrics") as reply:
                    shown = await reply.text()
        figures = dict(re.findall(r"^(income_\w+) ([\d.e+]+)$", shown, re.MULTILINE))
    assert float(figures["income_poll_lag_seconds"]) >= 5
    assert float(figures["income_poll_failures_total"]) == 0
    assert float(figures["income_dead_letters_total"]) == 0


RUN: Final[Mapping[str, RunExample]] = {
    "measured_worker.py": measures,
}
