# celery_incomes.py
# pip install 'celery[redis]'
import asyncio

from celery import Celery

from income_client import IncomeClient, SQLiteCheckpointStore

app = Celery("celery_incomes")  # CELERY_BROKER_URL leads to its broker
app.conf.beat_schedule = {"poll": {"task": "poll", "schedule": 300, "options": {"expires": 300}}}


async def enqueue_updates() -> None:
    async with IncomeClient.from_env() as client:
        poller = client.poll(SQLiteCheckpointStore("polls.db"), start="2026-01-01", once=True)
        async for batch in poller.batches():
            async with batch:
                for record in batch:
                    decide.delay(record.application_id)


@app.task(name="poll")
def poll() -> None:
    asyncio.run(enqueue_updates())


@app.task(name="decide", acks_late=True)
def decide(application_id: str) -> None:
    print(application_id, flush=True)
