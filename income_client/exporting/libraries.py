"""Libraries that hold tables: whether they are there, and what to install where one is not."""

from importlib import import_module
from typing import Final

from income_client.errors import ConfigurationError

_TO_INSTALL: Final = {
    "pyarrow": "'income-client[parquet]'",
    "polars": "'income-client[parquet]' polars",
    "pandas": "'income-client[parquet]' pandas",
}


def check_installed(name: str) -> None:
    """Load a library; one that is there and broken says itself what is wrong with it.

    Args:
        name: pyarrow, polars or pandas.

    Raises:
        ConfigurationError: it is not installed.
        ImportError: it cannot be loaded.
    """
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
    else:
        return
    raise ConfigurationError(f"this needs {name}: pip install {_TO_INSTALL[name]}")
