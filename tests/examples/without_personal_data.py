# without_personal_data.py
# pip install 'income-client[parquet]'
import sys

import pyarrow.parquet as pq

KEPT = {"current_state", "calculated_income_amount"}


def main(source: str, target: str) -> None:
    table = pq.read_table(source)
    personal = {column.name for column in table.schema if (column.metadata or {}).get(b"pii")}
    pq.write_table(table.drop_columns(sorted(personal - KEPT)), target)


if __name__ == "__main__":
    main(*sys.argv[1:])
