# celery_incomes.py
# pip install 'celery[redis]'
from celery import Celery

from income_client import SQLiteCheckpointStore, SyncIncomeClient

app = Celery("celery_incomes")  # CELERY_BROKER_URL leads to its broker
app.conf.beat_schedule = {"poll": {"task": "poll", "schedule": 300, "options": {"expires": 300}}}


@app.task(name="poll")
def poll() -> None:
    store = SQLiteCheckpointStore("polls.db")
    with SyncIncomeClient.from_env() as client:
        poller = client.poll(store, start="2026-01-01", documents=False, once=True)
        for batch in poller.batches():
            with batch:
                for record in batch:
                    decide.delay(record.application_id)


@app.task(name="decide", acks_late=True)
def decide(application_id: str) -> None:
    print(application_id, flush=True)
