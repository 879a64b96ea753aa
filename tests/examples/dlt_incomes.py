# dlt_incomes.py
# pip install 'dlt[duckdb]'
from collections.abc import AsyncIterator
from typing import Any

import dlt
from cattrs.preconf.json import make_converter

from income_client import ApplicationRecord, DeadLetter, IncomeClient, MemoryCheckpointStore

LETTERS = make_converter()


def row_of(record: ApplicationRecord) -> dict[str, Any]:
    incomes = [
        {"applicant": applicant, "year": income.year, "total": income.total}
        for applicant, calculation in record.application.income_calculations.items()
        for income in calculation.incomes
    ]
    return {"application_id": record.application_id, "incomes": incomes}


@dlt.resource(primary_key="application_id", write_disposition="merge")
async def applications() -> AsyncIterator[list[dict[str, Any]]]:
    state, store = dlt.current.resource_state(), MemoryCheckpointStore()
    if state:
        letters = LETTERS.structure(state["dead_letters"], list[DeadLetter])
        await store.save("default", state["checkpoint"], version=0, dead_letters=letters)
    async with IncomeClient.from_env() as client:
        poller = client.poll(store, start="2026-01-01", documents=False, once=True)
        async for batch in poller.batches():
            async with batch:
                yield [row_of(record) for record in batch]
    state["checkpoint"] = (await store.load("default")).checkpoint
    state["dead_letters"] = LETTERS.unstructure(await store.dead_letters("default"))


if __name__ == "__main__":
    pipeline = dlt.pipeline("warehouse", destination="duckdb", dataset_name="income")
    print(pipeline.run(applications()))
