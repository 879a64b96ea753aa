# merge_exports.py
# pip install duckdb
import sys

import duckdb

TABLES = ("applications", "applicants", "income_sources", "documents", "paystub_amounts")
CHANGED = """
    CREATE OR REPLACE TEMP TABLE changed AS
    SELECT application_id FROM '{0}/applications.parquet' AS export
    LEFT JOIN applications AS held USING (application_id)
    WHERE held.last_updated_at IS NULL OR export.last_updated_at >= held.last_updated_at
"""


def merge(database: duckdb.DuckDBPyConnection, export: str) -> None:
    database.begin()
    for table in TABLES:
        source = f"FROM '{export}/{table}.parquet'"
        database.execute(f"CREATE TABLE IF NOT EXISTS {table} AS {source} LIMIT 0")
    database.execute(CHANGED.format(export))
    for table in TABLES:
        source = f"FROM '{export}/{table}.parquet'"
        which = "WHERE application_id IN (FROM changed)"
        database.execute(f"DELETE FROM {table} {which}")
        database.execute(f"INSERT INTO {table} BY NAME {source} {which}")
    database.commit()


if __name__ == "__main__":
    with duckdb.connect("incomes.duckdb") as database:
        for export in sys.argv[1:]:
            merge(database, export)
