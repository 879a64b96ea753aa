"""Folders that may not be entered, as the home of another user is."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from income_client import ConfigurationError, IncomeClientError
from income_client.cli.stores import load_name, open_store, read_address
from income_client.configuration import from_file
from income_client.system.disk import is_folder, is_missing

NOBODY: Final = 65_534


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Take the right to enter a folder from this process, which may be root's."""
    is_root = os.geteuid() == 0
    folder.chmod(0o700 if is_root else 0)
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)


async def load_from(path: Path) -> None:
    address = read_address(str(path))
    async with open_store(address) as store:
        await load_name(store, address, "name")


async def test_a_store_that_cannot_be_seen_is_not_called_missing(tmp_path: Path) -> None:
    """Path.exists and Path.is_dir raise PermissionError before CPython 3.14."""
    inner = tmp_path / "locked" / "inner"
    inner.mkdir(parents=True)
    await load_from(inner / "store.db")  # which imports what it needs
    with locked(tmp_path / "locked"):
        with pytest.raises(IncomeClientError, match=r"(?i)permission denied"):
            await load_from(inner / "store.db")
        assert not is_missing(inner / "store.db")
        assert not is_folder(inner)
    assert is_missing(inner / "other.db")
    assert is_missing(inner / "store.db" / "below")
    with pytest.raises(IncomeClientError, match="there is no folder"):
        await load_from(inner / "other" / "store.db")


def test_settings_in_a_home_that_cannot_be_entered_are_missing(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir()
    variables = {"XDG_CONFIG_HOME": str(tmp_path / "locked" / "inner")}
    with locked(tmp_path / "locked"):
        with pytest.raises(ConfigurationError, match="set INCOME_BASE_URL"):
            from_file(variables=variables).auth()
        with pytest.raises(ConfigurationError, match="permission denied"):
            from_file(path=tmp_path / "locked" / "file.toml", variables={})
