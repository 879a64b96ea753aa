# celery_tasks.py
# pip install celery
import os

from celery import Celery
from celery.signals import worker_process_init

from income_client import SyncIncomeClient

app = Celery("celery_tasks", broker=os.environ["BROKER"])
income: SyncIncomeClient


@worker_process_init.connect
def open_client(**_: object) -> None:
    global income
    income = SyncIncomeClient.from_env()


@app.task
def read(application_id: str) -> None:
    print(income.get_application(application_id).application_id)  # your own work
