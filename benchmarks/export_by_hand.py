"""An export as one writes it by hand: ``python -m benchmarks.export_by_hand URL ID SECRET FILE``.

The peer of ``income-client export``: aiohttp, a walk that halves full windows, sixteen requests in
flight, and the signed addresses cut out. JSON lines go through orjson. With ``--tables`` a folder
of five Parquet files is written, whose amounts are decimals. Nothing is checked, retried or
resumed, and tables are made in memory.
"""

import argparse
import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson

_IN_FLIGHT: Final = 16
_LIMIT: Final = 1000
_PATH: Final = "/v1/income/applications"

Load = Callable[[bytes], Any]


async def list_ids(session: aiohttp.ClientSession) -> AsyncIterator[str]:
    """Yield the id of every application, once."""
    seen = set()
    windows: list[tuple[str, str | None]] = [("1970-01-01T00:00:00", None)]
    while windows:
        after, before = windows.pop()
        params = {"updated_after": after, "limit": str(_LIMIT)}
        if before is not None:
            params["updated_before"] = before
        async with session.get(_PATH, params=params) as reply:
            page = orjson.loads(await reply.read())
        rows = page["applications"]
        for row in rows:
            if row["application_id"] not in seen:
                seen.add(row["application_id"])
                yield row["application_id"]
        if len(rows) >= _LIMIT:
            begin, end = map(datetime.fromisoformat, (after, page["updated_before"]))
            middle = (begin + (end - begin) / 2).replace(microsecond=0).isoformat()
            windows += [(after, middle), (middle, end.isoformat())]


async def read_records(
    session: aiohttp.ClientSession, load: Load, take: Callable[[Any, Any], None]
) -> None:
    """Read every application with its documents."""
    ids: asyncio.Queue[str | None] = asyncio.Queue(2 * _LIMIT)

    async def read(path: str) -> Any:
        async with session.get(f"{_PATH}/{path}") as reply:
            return load(await reply.read())

    async def work() -> None:
        while (one := await ids.get()) is not None:
            application, documents = await read(one), await read(f"{one}/documents")
            for kind in documents["documents"].values():
                for document in kind:
                    document["url"] = ""
            take(application, documents)

    async with asyncio.TaskGroup() as workers:
        for _ in range(_IN_FLIGHT):
            workers.create_task(work())
        async for one in list_ids(session):
            await ids.put(one)
        for _ in range(_IN_FLIGHT):
            await ids.put(None)


class Tables:
    """Five tables of rows that wait in memory."""

    def __init__(self) -> None:
        names = ("applications", "applicants", "income_sources", "documents", "paystub_amounts")
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in names}

    def take(self, application: Any, documents: Any) -> None:
        """Add the rows of an application."""
        rows, key = self._rows, {"application_id": application["application_id"]}
        applicants = application.pop("applicants")
        calculations = application.pop("income_calculations")
        sources = application.pop("data_sources")
        for calculation in calculations.values():
            calculation["years"] = [income["year"] for income in calculation["incomes"]]
        rows["applications"].append({**application, "image_files": sources["image_files"]})
        for slot, applicant in applicants.items():
            years = calculations[slot]["years"] if slot in calculations else None
            rows["applicants"].append(key | {"applicant": slot, "years": years} | applicant)
        for slot, calculation in calculations.items():
            for income in calculation["incomes"]:
                for source in income["income_sources"]:
                    rows["income_sources"].append(
                        key | {"applicant": slot, "year": income["year"]} | source
                    )
        number = 0
        for kind, of_kind in documents["documents"].items():
            for document in of_kind:
                number += 1
                key |= {"document_number": number, "document_type": kind}
                data = document.pop("extracted_data")
                if kind != "paystub":
                    text = json.dumps(data, default=str)
                    rows["documents"].append(key | document | {"extracted_data": text})
                    continue
                pairs = {name: pair for name, pair in data.items() if _is_pair(pair)}
                persons = list(data["applicants"].values())
                fields = {name: data[name] for name in data if name not in pairs}
                rows["documents"].append(key | document | fields | {"applicants": persons})
                for name, pair in pairs.items():
                    rows["paystub_amounts"].append(
                        key
                        | {
                            "document_id": document["document_id"],
                            "name": name,
                            "current_amount": pair["current"] or None,
                            "ytd_amount": pair["ytd"] or None,
                        }
                    )

    def write(self, folder: Path) -> None:
        """Write the files."""
        import pyarrow as pa  # noqa: PLC0415 - JSON lines need none
        import pyarrow.parquet as pq  # noqa: PLC0415 - likewise

        folder.mkdir()
        for name, rows in self._rows.items():
            columns = dict.fromkeys(column for row in rows[:1000] for column in row)
            table = pa.table({column: [row.get(column) for row in rows] for column in columns})
            pq.write_table(table, folder / f"{name}.parquet", compression="zstd")


def _is_pair(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == {"current", "ytd"}


async def export(url: str, client_id: str, secret: str, to: Path, *, as_tables: bool) -> None:
    """Export everything."""
    async with aiohttp.ClientSession(url, raise_for_status=True) as session:
        form = {"grant_type": "client_credentials"}
        basic = b64encode(f"{client_id}:{secret}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}"}
        async with session.post("/token", data=form, headers=headers) as reply:
            token = (await reply.json())["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        url, headers=headers, connector=connector, raise_for_status=True
    ) as session:
        if as_tables:
            tables = Tables()
            await read_records(session, partial(json.loads, parse_float=Decimal), tables.take)
            tables.write(to)
            return
        with to.open("wb") as file:

            def write(application: Any, documents: Any) -> None:
                record = {"application": application, "documents": documents}
                file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))

            await read_records(session, orjson.loads, write)


def main() -> None:
    """Export as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.export_by_hand")
    for name in ("url", "client_id", "secret"):
        parser.add_argument(name)
    parser.add_argument("to", type=Path)
    parser.add_argument("--tables", action="store_true")
    options = parser.parse_args()
    asyncio.run(
        export(
            options.url,
            options.client_id,
            options.secret,
            options.to,
            as_tables=options.tables,
        )
    )


if __name__ == "__main__":
    main()
