"""How the examples that extend the package are run, and what must come of each."""

import itertools
import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from income_client import IncomeClient, to_json
from income_client.emulator import Emulator
from income_client.testing import check_checkpoint_store, make_record
from tests.support.examples import RunExample, loaded, python


async def prints_forms(service: Emulator, path: Path) -> None:
    """Only forms of the type that was registered are printed, with their year."""
    data = {"employer_name": "Acme Tool Works", "year": 2025, "wages": Decimal("1000.50")}
    record = make_record()
    application, documents = (
        json.loads(to_json(one), parse_float=Decimal)
        for one in (record.application, record.documents)
    )
    (slip,) = documents["documents"]["paystub"]
    form = {**slip, "document_id": "doc-form", "extracted_data": data}
    documents["documents"]["invented_form"] = [form]
    record_id = service.world.add(application, documents)
    lines = await python(service, path.parent, path.name, record_id, *service.world.ids[:5])
    assert lines == ["invented_form 2025"]


async def keeps_checkpoints(service: Emulator, path: Path) -> None:
    """It does what the package's own stores do, and a poller resumes with it."""
    module = loaded(path)
    numbers = itertools.count()
    await check_checkpoint_store(lambda: module.JsonStore(path.parent / f"{next(numbers)}.json"))
    store = module.JsonStore(path.parent / "polls.json")
    async with IncomeClient(service.url, auth=service.oauth2) as client:
        for expected in (len(service.world.ids), 0):
            poller = client.poll(store, start="1970-01-01", settle=0, documents=False, once=True)
            assert len([record async for record in poller]) == expected


async def checks_tokens(service: Emulator, path: Path) -> None:
    """A callback with the token is accepted, one with another is refused."""
    content = {
        "event_type": "income_calculation",
        "application_id": service.world.ids[0],
        "application_reference_id": "LOAN-00000001",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALLBACK_TOKEN", "invented-token")
        async with TestServer(loaded(path).app) as server, ClientSession() as session:
            for token, status in (("invented-token", 200), ("guess", 401)):
                async with session.post(
                    server.make_url("/callbacks"),
                    data=json.dumps(content),
                    headers={
                        "Authorization": f"Bearer {token}",
                        "Content-Type": "application/json",
                    },
                ) as reply:
                    assert reply.status == status, await reply.text()


RUN: Final[Mapping[str, RunExample]] = {
    "callbacks_opaque.py": checks_tokens,
    "invented_form.py": prints_forms,
    "json_store.py": keeps_checkpoints,
}
