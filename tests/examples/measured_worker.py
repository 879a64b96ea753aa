# measured_worker.py
# pip install prometheus-client
import asyncio
import os

from prometheus_client import Counter, Gauge, start_http_server

from income_client import (
    DeadLettered,
    Event,
    IncomeClient,
    PollFailed,
    PollFinished,
    SQLiteCheckpointStore,
)

LAG = Gauge("income_poll_lag_seconds", "How far the checkpoint is behind the service.")
FAILURES = Gauge("income_poll_failures", "Failed polls since the last one that succeeded.")
POLLS = Counter("income_polls", "Polls that succeeded.")
DEAD_LETTERS = Counter("income_dead_letters", "How often something could not be read.")


def measure(event: Event) -> None:
    if isinstance(event, PollFinished | PollFailed) and event.lag is not None:
        LAG.set(event.lag)
    match event:
        case PollFinished():
            POLLS.inc()
            FAILURES.set(0)
        case PollFailed(failures=failures):
            FAILURES.set(failures)
        case DeadLettered():
            DEAD_LETTERS.inc()


async def main() -> None:
    start_http_server(int(os.environ["PORT"]), addr="127.0.0.1")
    async with IncomeClient.from_env(on_event=measure) as client:
        async for record in client.poll(SQLiteCheckpointStore("polls.db")):
            print(record.application_id, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
