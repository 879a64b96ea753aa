"""Rows, lines and progress: data on standard output, all else on standard error."""
