"""Records as tables: their rows and columns, in memory and in Parquet files."""

from .parquet import ParquetTables
from .tables import RecordTables, to_arrow

__all__ = [
    "ParquetTables",
    "RecordTables",
    "to_arrow",
]
