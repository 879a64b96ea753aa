# daily_audit.py
# pip install prometheus-client
import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from income_client import ApplicationRecord, FetchFailure, IncomeClient
from income_client.audit import Audit

SETTLE = 60  # as in poll()
STORE = """
INSERT INTO incomes VALUES (?, ?) ON CONFLICT (application_id)
DO UPDATE SET updated_at = excluded.updated_at WHERE excluded.updated_at > updated_at
"""  # a poller may have stored a newer version meanwhile


def row_of(record: ApplicationRecord) -> tuple[str, str]:
    entries = record.documents.all() if record.documents else ()
    times = (entry.document.updated_at for entry in entries)
    return record.application_id, str(max([record.last_updated_at, *times]))


def publish(found: Audit) -> None:
    registry = CollectorRegistry()
    drift = Gauge("income_audit_drift", "Applications by finding.", ["kind"], registry=registry)
    drift.labels("missing").set(len(found.missing))
    drift.labels("stale").set(len(found.stale))
    drift.labels("unlisted").set(len(found.unlisted))
    drift.labels("in_future").set(found.in_future)
    open_ = Gauge("income_audit_undecided", "Perhaps stale.", registry=registry)
    open_.set(found.undecided)
    Gauge("income_audit_seconds", "When.", registry=registry).set_to_current_time()
    write_to_textfile("income_audit.prom", registry)  # for the node exporter


async def main() -> None:
    with closing(sqlite3.connect("incomes.db")) as database:
        held = database.execute("SELECT application_id, updated_at FROM incomes")
        async with IncomeClient.from_env() as client:
            since = await client.service_time() - timedelta(days=2)
            found = await client.audit(held, updated_after=since, settle=SETTLE, margin=SETTLE)
            publish(found)
            again = [*found.missing, *(stale.application_id for stale in found.stale)]
            async for record in client.fetch_records(again, on_error="yield"):
                if isinstance(record, FetchFailure):
                    continue  # the next audit names it again
                with database:
                    database.execute(STORE, row_of(record))
                print(record.application_id)


if __name__ == "__main__":
    asyncio.run(main())
