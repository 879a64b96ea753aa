# dlt_incomes.py
# pip install 'dlt[duckdb]'
import sys
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
    state, store, known = dlt.current.resource_state(), MemoryCheckpointStore(), set[str]()
    if state:
        letters = LETTERS.structure(state["dead_letters"], list[DeadLetter])
        known = {letter.key for letter in letters}
        await store.save("default", state["checkpoint"], version=0, dead_letters=letters)
    async with IncomeClient.from_env() as client:
        poller = client.poll(store, start="2026-01-01", documents=False, once=True)
        async for batch in poller.batches():
            async with batch:
                yield [row_of(record) for record in batch]
            await keep_state(store, state)
    letters = await keep_state(store, state)
    unread.extend(letter.key for letter in letters if letter.key not in known)


async def keep_state(store: MemoryCheckpointStore, state: dict[str, Any]) -> list[DeadLetter]:
    letters = [*await store.dead_letters("default")]
    state["checkpoint"] = (await store.load("default")).checkpoint
    state["dead_letters"] = LETTERS.unstructure(letters)
    return letters


unread: list[str] = []

if __name__ == "__main__":
    pipeline = dlt.pipeline("warehouse", destination="duckdb", dataset_name="income")
    print(pipeline.run(applications()))
    if unread:
        sys.exit(f"could not be read, and are tried again by later runs: {unread}")
