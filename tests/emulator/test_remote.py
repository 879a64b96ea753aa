"""An emulator that runs elsewhere: all that tests ask of one of their own, over HTTP."""

import inspect
import json
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from income_client import ConfigurationError, IncomeClient, IncomeClientError, Secret
from income_client.emulator import CallbackTarget, Emulator, RemoteEmulator, ServiceRules
from income_client.emulator.control import COMMANDS
from income_client.emulator.times import START
from income_client.testing import IncomeService
from tests.support.server import HUNG_UP, ScriptedServer, in_turn, reply


async def test_everything_reaches_the_emulator(service: Emulator) -> None:
    """Each method does there what its name says."""
    async with (
        RemoteEmulator(service.url + "/") as remote,
        IncomeClient(remote.url, auth=remote.oauth2, downloads=remote.download_policy) as client,
    ):
        assert (remote.basic, remote.oauth2) == (service.basic, service.oauth2)
        assert await remote.now() == START
        moved = START + timedelta(seconds=60)
        assert await remote.advance(60) == await remote.now() == moved
        name = service.world.ids[7]
        touched = await remote.touch(name)
        assert (touched.application_id, touched.updated_at, touched.updates) == (name, moved, 1)
        assert await remote.rules() == ServiceRules()
        changed = await remote.change_rules({"order": "shuffled", "max_span": 9})
        assert changed == await remote.rules() == service.rules
        assert service.rules.max_span == 9
        record = {
            "application_id": "a/b?",
            "application_reference_id": "r",
            "application_date": "2026-06-01T00:00:00",
            "amount": Decimal("12.50"),
        }
        assert (await remote.add(record, now=True)).application_id == "a/b?"
        assert [each.added for each in await remote.applications("a/b", limit=1)] == [True]
        assert (await remote.application("a/b?"))["application"]["amount"] == 12.5
        assert (await remote.replace({**record, "amount": 1})).updated_at == moved
        await remote.remove("a/b?")
        assert service.world.number_of("a/b?") is None
        (document, *_) = (await client.get_documents(name)).all()
        content = service.content_of(document[1].document_id)
        await remote.replace_file(document[1].document_id)
        assert service.content_of(document[1].document_id) != content
        await remote.revoke_tokens()
        await remote.add_faults("get_application: 503; file: cut")
        assert [fault["call"] for fault in await remote.faults()] == ["get_application", "file"]
        assert (await client.get_application(name)).application_id == name
        requested = await client.find_application(service.world.reference_of(7))
        assert requested is not None
        last = (await remote.requests())[-1].page
        assert last is not None
        assert (last.by_reference, last.rows) == (True, 1)
        calls = [(each.call, each.status) for each in await remote.requests()]
        assert calls[-5:-1] == [
            ("get_application", 503), ("get_application", 401), ("token", 200),
            ("get_application", 200),
        ]  # fmt: skip
        assert (await remote.requests(after=1))[0].id == 2
        await remote.clear_faults()
        async with ScriptedServer(in_turn(reply())) as server:
            service.callbacks = CallbackTarget(server.url)
            delivery = await remote.fire_callback(name, "error", update=True)
        assert (delivery.delivered, delivery.application_id, delivery.event_type) == (
            True, name, "error",
        )  # fmt: skip
        await remote.clear_requests()
        assert await remote.requests() == []
        await remote.reset()
        state = await remote.state()
        assert (state.rules, state.service_time, state.faults) == (ServiceRules(), START, 0)


async def test_the_state_is_typed(service: Emulator) -> None:
    """Times are times, the rules are `ServiceRules`, and counts are numbers."""
    service.callbacks = CallbackTarget("http://127.0.0.1:9/in?key=hidden")
    service.faults.add("any: 503; file: cut")
    async with RemoteEmulator(service.url) as remote:
        await remote.touch(service.world.ids[0])
        async with IncomeClient(remote.url, auth=remote.basic) as client:
            await client.get_application_page(limit=5)
        state = await remote.state()
    assert (state.url, state.files_url, state.seed) == (service.url, service.files_url, 7)
    assert (state.service_time, state.time_flows, state.last_update) == (START, False, START)
    assert (state.applications, state.requests) == (50, {"list_applications": 2})
    assert (state.full_pages, state.first_request, state.last_request) == (1, 1, 2)
    assert (state.in_flight, state.max_in_flight, state.token_requests) == (0, 1, 0)
    assert (state.faults, state.faults_played) == (1, {"503": 1})
    assert state.callbacks_url == "http://127.0.0.1:9/in"
    assert state.rules == ServiceRules()


def test_every_command_of_the_control_is_a_method() -> None:
    """But for those that only the page needs; with the arguments and the words of the command."""
    missing = {name for name in COMMANDS if not hasattr(RemoteEmulator, name)}
    assert missing == {"environment", "histogram"}
    for name in COMMANDS.keys() - missing:
        method, function = getattr(RemoteEmulator, name), COMMANDS[name].function
        assert method.__doc__ == function.__doc__
        shown = list(inspect.signature(method).parameters)
        assert shown == ["self", *list(inspect.signature(function).parameters)[1:]]


@pytest.mark.parametrize("token", [None, Secret("wrong-control-token")])
async def test_failures_say_what_is_wrong(service: Emulator, token: Secret | None) -> None:
    """A refusal is a configuration error with the emulator's own words; no token is in any."""
    async with RemoteEmulator(service.url) as remote:
        with pytest.raises(ConfigurationError, match="no application of this id"):
            await remote.touch("nobody")
        with pytest.raises(ConfigurationError, match="did you mean order"):
            await remote.change_rules({"oder": "shuffled"})
        with pytest.raises(ConfigurationError, match="there is no fault"):
            await remote.add_faults("any: 5O3")
        for invalid in ("\udcff", object()):
            with pytest.raises(ConfigurationError, match="touch: an argument cannot be written"):
                await remote.touch(invalid)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="applications: an argument cannot"):
            await remote.applications("\udcff")
    async with Emulator(1, control_token=Secret("right-control-token")) as closed:
        said = "send .* with the control token" if token is None else "the token is wrong"
        with pytest.raises(ConfigurationError, match=said) as caught:
            await RemoteEmulator(closed.url, token).start()
        async with RemoteEmulator(closed.url, "right-control-token") as remote:
            await remote.advance(1)
    assert "wrong-control" not in repr(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    nobody = f"no emulator answers at {closed.url}: connection refused"
    with pytest.raises(IncomeClientError, match=re.escape(nobody)):
        await RemoteEmulator(closed.url, token).start()
    with pytest.raises(IncomeClientError, match="its host is not known"):
        await RemoteEmulator("http://nobody.invalid:8080", token).start()
    for answer, said in (
        (HUNG_UP, "no emulator answers at .*: the connection was closed before a reply"),
        (reply(200, b"[]"), "not an emulator"),
        (reply(302, Location="/"), "not an emulator"),
    ):
        async with ScriptedServer(in_turn(answer)) as server:
            with pytest.raises(IncomeClientError, match=said):
                await RemoteEmulator(server.url, token).start()
    secure = service.url.replace("http:", "https:")
    with pytest.raises(IncomeClientError, match="it does not speak TLS"):
        await RemoteEmulator(secure, token).start()
    with pytest.raises(ConfigurationError, match="token must be 8 or more"):
        RemoteEmulator(closed.url, "short")
    refused = reply(400, json.dumps({"message": "\x1b[2J" + "x" * 2_000}).encode())
    async with ScriptedServer(in_turn(refused)) as server:
        with pytest.raises(ConfigurationError, match=r"^\?\[2Jx{996}$"):
            await RemoteEmulator(server.url, token).start()


@pytest.mark.parametrize(
    "url",
    [
        *("", "localhost:8080", "ftp://host", "http://", "http://host:99999", "http://[::1"),
        *("http://user:canary@host", 8080, None),
    ],
)
def test_an_invalid_address_is_refused(url: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^url must be ") as caught:
        RemoteEmulator(url)
    assert "canary" not in str(caught.value)


async def test_the_fixture_drives_the_service_of_the_test(
    income_emulator: RemoteEmulator, income_service: IncomeService
) -> None:
    """Without an address, that is `income_service`, over HTTP."""
    await income_emulator.touch(income_service.ids[0])
    assert income_emulator.url == income_service.url
    assert (await income_emulator.applications(limit=1))[0].updates == 1
