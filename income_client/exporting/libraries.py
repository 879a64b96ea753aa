"""Libraries that hold tables, loaded when they are first needed; knows what to install for each."""

from importlib import import_module
from typing import Any, Final

from income_client.errors import ConfigurationError

_TO_INSTALL: Final = {
    "pyarrow": "'income-client[parquet]'",
    "polars": "'income-client[parquet]' polars",
    "pandas": "'income-client[parquet]' pandas",
}


def library(name: str) -> Any:
    """Return a library.

    Args:
        name: pyarrow, polars or pandas, or a module of one.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError:
        pass
    known = name.partition(".")[0]
    raise ConfigurationError(f"this needs {known}: pip install {_TO_INSTALL[known]}")
