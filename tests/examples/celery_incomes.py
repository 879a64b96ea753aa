# celery_incomes.py
# pip install 'celery[redis]'
from typing import Any

from celery import Celery

from income_client import IncomeClientError, SQLiteCheckpointStore, SyncIncomeClient

app = Celery("celery_incomes")  # CELERY_BROKER_URL leads to its broker
app.conf.beat_schedule = {"poll": {"task": "poll", "schedule": 300, "options": {"expires": 300}}}
income = SyncIncomeClient.from_env()


@app.task(name="poll")
def poll() -> None:
    store = SQLiteCheckpointStore("polls.db")
    poller = income.poll(store, start="2026-01-01", documents=False, once=True)
    for batch in poller.batches():
        with batch:
            for record in batch:
                decide.delay(record.application_id)


@app.task(name="decide", bind=True, acks_late=True, max_retries=None)
def decide(self: Any, application_id: str) -> None:
    try:
        application = income.get_application(application_id)
    except IncomeClientError as error:
        if not error.retryable:
            raise
        raise self.retry(countdown=error.retry_after or 60) from error
    print(application.application_id, flush=True)
