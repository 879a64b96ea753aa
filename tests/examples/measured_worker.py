# measured_worker.py
# pip install prometheus-client
import asyncio
import os

from prometheus_client import Counter, Gauge, start_http_server

from income_client import IncomeClient, SQLiteCheckpointStore
from income_client.events import DeadLettered, Event, PollFailed, PollFinished

LAG = Gauge("income_poll_lag_seconds", "How far the checkpoint is behind the service.")
POLLS = Counter("income_polls", "Polls that succeeded.")
FAILURES = Counter("income_poll_failures", "Polls that failed.")
DEAD_LETTERS = Counter("income_dead_letters", "New dead letters.")


def measure(event: Event) -> None:
    if isinstance(event, PollFinished):
        POLLS.inc()
        LAG.set(event.lag or 0)
    elif isinstance(event, PollFailed):
        FAILURES.inc()
    elif isinstance(event, DeadLettered) and event.is_new:
        DEAD_LETTERS.inc()


async def main() -> None:
    start_http_server(int(os.environ["PORT"]), addr="127.0.0.1")
    async with IncomeClient.from_env(on_event=measure) as client:
        async for record in client.poll(SQLiteCheckpointStore("measured.db")):
            print(record.application_id, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
