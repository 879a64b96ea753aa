"""The guide's alert rules under Prometheus, which scrapes the guide's program."""

import asyncio
import contextlib
import json
import re
import subprocess
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import ClientConnectionError, ClientSession

from income_client.emulator import Emulator, Fault
from tests.slow.callback_processes import free_port
from tests.slow.examples import alive
from tests.slow.prometheus import PROMTOOL, RULES, SERVER, prometheus
from tests.support.pages import EXAMPLES

pytestmark = [
    pytest.mark.skipif(
        SERVER is None or PROMTOOL is None,
        reason="no Prometheus; Debian has it: apt-get install prometheus",
    ),
    pytest.mark.timeout(300),
]

OUTAGE: Final = Fault("status", status=503, times=None, path="/v1/*")
SHORT: Final = re.sub(r"for: \w+", "for: 4s", RULES.replace("> 900", "> 8"))
"""The guide's rules with shorter times, for pollers that poll each second and take over in two."""


@contextlib.asynccontextmanager
async def worker(service: Emulator, folder: Path, port: int) -> AsyncIterator[None]:
    """Run the guide's program with a poll each second and a lease of two seconds."""
    text = (EXAMPLES / "measured_worker.py").read_text("utf-8")
    short = 'standby=2, interval=1, settle=1, start="2026-01-01")'
    assert text.count("standby=True)") == 1
    (folder / "worker.py").write_text(text.replace("standby=True)", short), "utf-8")
    async with alive(service, folder, "worker.py", PORT=str(port)):
        await gauges_of(port)
        yield


async def gauges_of(port: int) -> dict[str, float]:
    """Return the gauges that a program shows, once it answers."""
    async with asyncio.timeout(30), ClientSession() as session:
        while True:
            with contextlib.suppress(ClientConnectionError):
                async with session.get(f"http://127.0.0.1:{port}/metrics") as reply:
                    shown = await reply.text()
                found = re.findall(r"^income_poller_(\w+)\{.*\} (.+)$", shown, re.MULTILINE)
                return {name: float(value) for name, value in found}
            await asyncio.sleep(0.05)


async def until_shown(port: int, name: str, value: float) -> None:
    """Wait until a program shows this value of a gauge."""
    async with asyncio.timeout(30):
        while (await gauges_of(port))[name] != value:  # noqa: ASYNC110 - another process's
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def emulated() -> AsyncIterator[Emulator]:
    """Run a service whose time flows, with ten applications."""
    start = datetime.now(UTC).replace(tzinfo=None)
    async with Emulator(10, start=start, time_flows=True) as service:
        yield service


async def test_an_outage_fires_and_a_standby_does_not(tmp_path: Path) -> None:
    """Nothing fires before, and all is clear afterwards."""
    ports = free_port(), free_port()
    async with (
        emulated() as service,
        worker(service, tmp_path, ports[0]),
        worker(service, tmp_path, ports[1]),
        prometheus(tmp_path, ports, SHORT) as server,
    ):
        await server.wait_for_values("income_poller_is_leader", 0, 1)
        await server.wait_for()
        service.faults.add(OUTAGE)
        await server.wait_for("IncomeFailing", "IncomeBehind")
        leader = await server.values('count by (instance) (ALERTS{alertstate="firing"})')
        assert leader == [2]
        service.faults.clear()
        await server.wait_for()


async def test_a_dead_letter_before_the_first_scrape_fires_until_it_is_read(
    tmp_path: Path,
) -> None:
    port = free_port()
    async with emulated() as service:
        service.faults.add(
            Fault("status", status=404, times=None, path=f"*/{service.world.ids[3]}")
        )
        async with worker(service, tmp_path, port):
            await until_shown(port, "dead_letters", 1)
            async with prometheus(tmp_path, [port], SHORT) as server:
                await server.wait_for("IncomeDeadLetters")
                service.faults.clear()
                service.advance(300)  # after which the dead letter is read again
                await until_shown(port, "dead_letters", 0)
                await server.wait_for()


async def test_a_process_that_has_ended_fires_and_one_that_takes_over_does_not(
    tmp_path: Path,
) -> None:
    """Nobody polls only once both have ended."""
    ports = free_port(), free_port()
    async with (
        emulated() as service,
        prometheus(tmp_path, ports, SHORT) as server,
        contextlib.AsyncExitStack() as second,
    ):
        async with worker(service, tmp_path, ports[0]):
            await until_shown(ports[0], "is_leader", 1)
            await second.enter_async_context(worker(service, tmp_path, ports[1]))
            await server.wait_for_values("income_poller_is_leader", 0, 1)
            await server.wait_for()
        await server.wait_for("IncomeProcessDown")
        await until_shown(ports[1], "is_leader", 1)
        await second.aclose()
        await server.wait_for("IncomeProcessDown", "IncomeNobodyPolls")


# Each series with its values at each minute, and the minutes at which the alert of a rule fires.
RULE_TESTS: Final[Mapping[str, tuple[dict[str, str], tuple[int, ...], tuple[int, ...]]]] = {
    "IncomeProcessDown": ({'up{job="income"}': "1 0 0 0 0 1"}, (3, 4), (0, 1, 2, 5)),
    "IncomeNobodyPolls": (
        {
            'income_poller_is_leader{poller="default", instance="a"}': "1 0 0 0 0 0",
            'income_poller_is_leader{poller="default", instance="b"}': "0 0 0 0 0 1",
        },
        (3, 4),
        (0, 1, 2, 5),
    ),
    "IncomeBehind": (
        {'income_poller_lag_seconds{poller="default"}': "60 901 NaN 60"},
        (1,),
        (0, 2),
    ),
    "IncomeFailing": (
        {'income_poller_failures{poller="default"}': "0 1 0 1 2 3 4 5 6 0"},
        (8,),
        (0, 1, 2, 3, 7, 9),
    ),
    "IncomeDeadLetters": (
        {'income_poller_dead_letters{poller="default"}': "29+0x16 0"},
        (15, 16),
        (0, 14, 17),
    ),
    "IncomeListedLate": ({'income_poller_late_seconds{poller="default"}': "30 31 0"}, (1,), (0, 2)),
    "IncomeAuditFoundDrift": (
        {
            'income_audit_drift{kind="missing"}': "0 0 0 0",
            'income_audit_drift{kind="stale"}': "0 1 0 0",
            "income_audit_undecided": "0 0 1 0",
        },
        (1, 2),
        (0, 3),
    ),
    "IncomeAuditMissing": ({"income_audit_seconds": "0x2885"}, (2881,), (2880,)),
}


@pytest.mark.parametrize("alert", RULE_TESTS)
def test_a_rule_fires_when_it_should(alert: str, tmp_path: Path) -> None:
    """By promtool, with the times of the guide."""
    assert PROMTOOL is not None
    series, firing, silent = RULE_TESTS[alert]
    tests: dict[str, Any] = {
        "rule_files": ["alerts.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": of} for name, of in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or '
                        "vector(0)",
                        "eval_time": f"{minute}m",
                        "exp_samples": [{"labels": "{}", "value": int(minute in firing)}],
                    }
                    for minute in sorted((*firing, *silent))
                ],
            }
        ],
    }
    (tmp_path / "alerts.yml").write_text(RULES, "utf-8")
    (tmp_path / "tests.yml").write_text(json.dumps(tests), "utf-8")
    ran = subprocess.run(
        [PROMTOOL, "test", "rules", "tests.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_rule_has_a_test() -> None:
    assert re.findall(r"alert: (\w+)", RULES) == [*RULE_TESTS]
