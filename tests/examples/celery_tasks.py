# celery_tasks.py
# pip install celery
import os

from celery import Celery
from celery.signals import worker_process_init

from income_client import SQLiteCheckpointStore, SyncIncomeClient

app = Celery("income", broker=os.environ["BROKER"])


@worker_process_init.connect
def open_client(**_: object) -> None:
    app.income = SyncIncomeClient.from_env()


@app.task
def read_updates() -> None:
    for batch in app.income.poll(SQLiteCheckpointStore("updates.db"), once=True).batches():
        with batch:  # committed at its end
            for record in batch:
                print("updated", record.application_id)  # your own work
