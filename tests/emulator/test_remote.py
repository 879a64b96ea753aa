"""An emulator that runs elsewhere: all that tests ask of one of their own, over HTTP."""

import re
from decimal import Decimal

import pytest

from income_client import ConfigurationError, IncomeClient, IncomeClientError, Secret
from income_client.emulator import CallbackTarget, Emulator, RemoteEmulator, ServiceRules
from income_client.emulator.times import START, second_of
from income_client.testing import IncomeService
from tests.support.server import HUNG_UP, ScriptedServer, in_turn, reply


async def test_everything_reaches_the_emulator(service: Emulator) -> None:
    """Each method does there what its name says."""
    async with (
        RemoteEmulator(service.url + "/") as remote,
        IncomeClient(remote.url, auth=remote.oauth2, downloads=remote.download_policy) as client,
    ):
        assert (remote.basic, remote.oauth2) == (service.basic, service.oauth2)
        assert await remote.now() == second_of(START)
        await remote.advance(60)
        name = service.world.ids[7]
        assert (
            await remote.touch(name) == await remote.now() == service.now == second_of(START) + 60
        )
        assert await remote.rules() == ServiceRules()
        assert await remote.rules(order="shuffled", max_span=9) == service.rules
        assert service.rules.max_span == 9
        record = {
            "application_id": "a/b?",
            "application_reference_id": "r",
            "application_date": "2026-06-01T00:00:00",
            "amount": Decimal("12.50"),
        }
        assert await remote.add(record, now=True) == "a/b?"
        assert [each["added"] for each in await remote.applications("a/b", limit=1)] == [True]
        assert (await remote.application("a/b?"))["application"]["amount"] == 12.5
        assert await remote.replace({**record, "amount": 1}) == service.now
        await remote.remove("a/b?")
        assert service.world.number_of("a/b?") is None
        (document, *_) = (await client.get_documents(name)).all()
        content = service.content_of(document[1].document_id)
        await remote.replace_file(document[1].document_id)
        assert service.content_of(document[1].document_id) != content
        await remote.revoke_tokens()
        await remote.faults.add("get_application: 503", "file: cut")
        assert [fault["call"] for fault in await remote.faults.left()] == [
            "get_application",
            "file",
        ]
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
        await remote.faults.clear()
        async with ScriptedServer(in_turn(reply())) as server:
            service.callbacks = CallbackTarget(server.url)
            delivery = await remote.fire_callback(name, "error", update=True)
        assert (delivery.delivered, delivery.application_id, delivery.event_type) == (
            True, name, "error",
        )  # fmt: skip
        await remote.clear_requests()
        assert await remote.requests() == []
        await remote.reset()
        assert (await remote.state())["rules"]["order"] == "ascending"
        assert service.now == second_of(START)


@pytest.mark.parametrize("token", [None, Secret("wrong-control-token")])
async def test_failures_say_what_is_wrong(service: Emulator, token: Secret | None) -> None:
    """A refusal is a configuration error with the emulator's own words; no token is in any."""
    async with RemoteEmulator(service.url) as remote:
        with pytest.raises(ConfigurationError, match="no application of this id"):
            await remote.touch("nobody")
        with pytest.raises(ConfigurationError, match="did you mean order"):
            await remote.rules(oder="shuffled")
        with pytest.raises(ConfigurationError, match="there is no fault"):
            await remote.faults.add("any: 5O3")
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


async def test_the_fixture_drives_the_service_of_the_test(
    income_emulator: RemoteEmulator, income_service: IncomeService
) -> None:
    """Without an address, that is `income_service`, over HTTP."""
    await income_emulator.touch(income_service.ids[0])
    assert income_emulator.url == income_service.url
    assert (await income_emulator.applications(limit=1))[0]["updates"] == 1
