"""How the examples that extend the package are run: an endpoint, and a store."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from income_client import DecodeError, IncomeClient, NotFoundError, UnexpectedResponseError
from income_client.emulator import Emulator, Fault
from income_client.testing import check_checkpoint_store
from tests.support.examples import RunExample, loaded


async def asks_for_notes(service: Emulator, path: Path) -> None:
    """Its reply becomes a record, and whatever else comes the error that it is."""
    one, other = service.world.ids[:2]
    for content, times in (
        ({"application_id": one, "texts": ["seen"]}, 1),
        ({"application_id": one, "texts": [5]}, 1),
        ({"application_id": other, "texts": []}, 3),  # which is retried
    ):
        body = json.dumps(content).encode()
        service.faults.add(Fault("body", path=f"*/{one}/notes", body=body, times=times))
    module = loaded(path)
    async with module.Client(service.url, auth=service.oauth2) as client:
        assert (await client.get_notes(one)).texts == ("seen",)
        with pytest.raises(DecodeError, match=r"\$\.texts\[0\]"):
            await client.get_notes(one)
        with pytest.raises(UnexpectedResponseError, match="about another application"):
            await client.get_notes(one)
        with pytest.raises(NotFoundError):
            await client.get_notes(one)


async def keeps_checkpoints(service: Emulator, path: Path) -> None:
    """It does what the package's own stores do, and a poller goes on with it."""
    module = loaded(path)
    numbers = itertools.count()
    await check_checkpoint_store(lambda: module.JsonStore(path.parent / f"{next(numbers)}.json"))
    store = module.JsonStore(path.parent / "polls.json")
    async with IncomeClient(service.url, auth=service.oauth2) as client:
        for expected in (len(service.world.ids), 0):
            poller = client.poll(store, start="1970-01-01", settle=0, documents=False)
            poller.stop(after_poll=True)
            assert len([record async for record in poller]) == expected


RUN: Final[Mapping[str, RunExample]] = {
    "endpoint.py": asks_for_notes,
    "json_store.py": keeps_checkpoints,
}
