"""Arguments that go in version 0.4: each works, and warns at the line that passes it."""

import json
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from income_client import (
    IncomeClient,
    InvalidArgumentError,
    MemoryCheckpointStore,
    SyncIncomeClient,
    UnexpectedResponseError,
)
from income_client.emulator import Emulator
from tests.support.clients import BASIC
from tests.support.payloads import APPLICATION
from tests.support.server import ScriptedServer, in_turn, json_reply
from tests.support.telemetry import collecting

URL = "http://127.0.0.1:9"
OPTIONS: dict[str, Any] = {
    "max_response_bytes": 2**20,
    "telemetry": False,
    "trace_configs": (),
    "user_agent": "lender/1.0",
}

FINDS = r"^find_application\(application_reference_id=\) is deprecated .*: use reference=$"
POLLS = r"^poll\(checkpoints=\) is deprecated since 0.3 and goes in 0.4: use store=$"


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("make", [IncomeClient, SyncIncomeClient, IncomeClient.from_env])
def test_an_argument_of_a_client_warns_where_it_is_passed(
    make: Callable[..., object], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCOME_BASE_URL", URL)
    monkeypatch.setenv("INCOME_USERNAME", "user")
    monkeypatch.setenv("INCOME_PASSWORD", "invented")
    usual = {} if make == IncomeClient.from_env else {"base_url": URL, "auth": BASIC}
    message = rf"^IncomeClient\({name}=\) is deprecated since 0.3 and goes in 0.4: use "
    with pytest.warns(DeprecationWarning, match=message) as caught:
        make(**usual, **{name: OPTIONS[name]})
    assert [each.filename for each in caught] == [__file__]


async def test_the_arguments_of_a_client_work_for_one_more_release() -> None:
    seen = []
    trace = aiohttp.TraceConfig()

    async def note(*_: object) -> None:
        seen.append("sent")

    trace.on_request_start.append(note)
    with collecting() as exported:
        async with ScriptedServer(in_turn(json_reply(APPLICATION))) as server:
            with pytest.warns(DeprecationWarning, match="goes in 0.4"):
                client = IncomeClient(
                    server.url,
                    auth=BASIC,
                    max_response_bytes=10,
                    telemetry=False,
                    trace_configs=[trace],
                    user_agent="lender/1.0",
                )
            async with client:
                with pytest.raises(UnexpectedResponseError, match="larger than 10 bytes"):
                    await client.get_application("app-1")
        (request,) = server.requests
    assert (request.headers["user-agent"], seen, exported.spans) == ("lender/1.0", ["sent"], ())


async def test_the_lease_of_a_poll_is_that_of_standby() -> None:
    store, message = MemoryCheckpointStore(), r"^poll\(lease=\).*: use standby=SECONDS$"
    async with (
        Emulator(1) as service,
        IncomeClient(service.url, auth=service.basic) as client,
    ):
        with pytest.warns(DeprecationWarning, match=message) as caught:
            poller = client.poll(store, start="2020-01-01", standby=True, lease=7.0)
        batches = poller.batches()
        await anext(batches)
        stored = (await store.load("default")).checkpoint
        await batches.aclose()
    assert [each.filename for each in caught] == [__file__]
    assert json.loads(stored or "")["lease"] == 7.0


async def test_an_old_name_of_an_argument_works_for_one_more_release() -> None:
    old: dict[str, Any] = {"application_reference_id": "LOAN-unheard-of"}
    stored: dict[str, Any] = {"checkpoints": MemoryCheckpointStore()}
    async with Emulator(1) as service, IncomeClient(service.url, auth=service.basic) as client:
        with pytest.warns(DeprecationWarning, match=FINDS) as found:
            assert await client.find_application(**old) is None
        with pytest.warns(DeprecationWarning, match=POLLS) as polled:
            client.poll(**stored)
    assert [each.filename for each in (*found, *polled)] == [__file__] * 2


def test_an_old_name_of_an_argument_works_without_await_too() -> None:
    empty: dict[str, Any] = {"application_reference_id": ""}
    stored: dict[str, Any] = {"checkpoints": MemoryCheckpointStore()}
    with SyncIncomeClient(URL, auth=BASIC) as client:
        with (
            pytest.warns(DeprecationWarning, match=FINDS) as found,
            pytest.raises(InvalidArgumentError, match="reference must be a non-empty str"),
        ):
            client.find_application(**empty)
        with pytest.warns(DeprecationWarning, match=POLLS) as polled:
            client.poll(**stored)
    assert [each.filename for each in (*found, *polled)] == [__file__] * 2


def test_an_argument_that_never_was_is_a_type_error() -> None:
    arguments: dict[str, Any] = {"conurrency": 3}
    with pytest.raises(TypeError, match="unexpected keyword argument 'conurrency'"):
        IncomeClient(URL, auth=BASIC, **arguments)
    client = IncomeClient(URL, auth=BASIC)
    with pytest.raises(TypeError, match="unexpected keyword argument 'conurrency'"):
        client.poll(MemoryCheckpointStore(), **arguments)
