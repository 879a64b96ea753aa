"""Records as tables: their rows and columns, in memory and in Parquet files."""
