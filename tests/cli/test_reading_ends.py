"""What a command reads is closed before the client is, however the command ends."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from income_client import ApplicationPaginator, IncomeClient
from income_client.cli.application import application
from income_client.cli.applications import applications
from income_client.cli.documents import documents
from income_client.cli.output.tables import RowWriter
from income_client.emulator import Emulator
from income_client.fetching import Fetcher
from tests.cli.polling import variables


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Emulator]:
    """A service that the environment leads to."""
    async with Emulator(5) as emulator:
        for name, value in variables(emulator).items():
            monkeypatch.setenv(name, value)
        yield emulator


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was closed, in the order of that."""
    names: list[str] = []
    for kind in (Fetcher, ApplicationPaginator, IncomeClient):
        _note(kind, names, monkeypatch)
    return names


def _note(kind: type[Any], names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    close = kind.aclose

    async def close_and_note(self: Any) -> None:
        names.append(kind.__name__)
        await close(self)

    monkeypatch.setattr(kind, "aclose", close_and_note)


async def test_one_application(service: Emulator, closed: list[str]) -> None:
    """Of which there is no more than one record."""
    assert await application(service.world.ids[0]) == 0
    assert closed[0] == "Fetcher"


async def test_rows_that_nobody_takes(
    service: Emulator, closed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed pipe ends the reading in the middle."""

    def refuse(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(RowWriter, "write", refuse)
    with pytest.raises(BrokenPipeError):
        await documents(*service.world.ids)
    assert closed[0] == "Fetcher"
    closed.clear()
    with pytest.raises(BrokenPipeError):
        await applications()
    assert closed[0] == "ApplicationPaginator"
