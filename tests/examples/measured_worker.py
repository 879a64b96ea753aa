# measured_worker.py
# pip install prometheus-client
import asyncio
import math
import os

from prometheus_client import Gauge, start_http_server

from income_client import IncomeClient, Poller, SQLiteCheckpointStore


def show(poller: Poller) -> None:
    """Show a poller's status to Prometheus, which reads it at each scrape."""
    gauges = {
        "lag_seconds": lambda: math.nan if poller.status.lag is None else poller.status.lag,
        "late_seconds": lambda: poller.status.late,
        "failures": lambda: poller.status.failures,
        "dead_letters": lambda: poller.status.dead_letters,
        "is_leader": lambda: poller.status.is_leader,
    }
    for name, read in gauges.items():
        gauge = Gauge(f"income_poller_{name}", f"PollerStatus.{name}", ["poller"])
        gauge.labels(poller.name).set_function(read)


async def main() -> None:
    async with IncomeClient.from_env() as client:
        poller = client.poll(SQLiteCheckpointStore("measured.db"), standby=True)
        show(poller)
        start_http_server(int(os.environ["PORT"]), addr="127.0.0.1")
        async for record in poller:
            print(record.application_id, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
