# daily_audit.py
# pip install prometheus-client
import asyncio
import sqlite3

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from income_client import IncomeClient
from income_client.audit import Audit


def publish(found: Audit) -> None:
    registry = CollectorRegistry()
    drift = Gauge("income_audit_drift", "Applications by finding.", ["kind"], registry=registry)
    drift.labels("missing").set(len(found.missing))
    drift.labels("stale").set(len(found.stale))
    drift.labels("unlisted").set(len(found.unlisted))
    drift.labels("in_future").set(found.in_future)
    open_ = Gauge("income_audit_undecided", "Perhaps stale by over a day.", registry=registry)
    open_.set(found.undecided)
    Gauge("income_audit_seconds", "When.", registry=registry).set_to_current_time()
    write_to_textfile("income_audit.prom", registry)  # for the node exporter


async def main() -> None:
    held = sqlite3.connect("incomes.db").execute("SELECT application_id, updated_at FROM incomes")
    async with IncomeClient.from_env() as client:
        found = await client.audit(held, margin=86_400)
        publish(found)
        again = [*found.missing, *(one.application_id for one in found.stale)]
        async for record in client.fetch_records(again):
            print(record.application_id)  # store it here


if __name__ == "__main__":
    asyncio.run(main())
