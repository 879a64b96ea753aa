"""The calls that are one request each: their path and query, and what the service gives."""

import gc
import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, quote

import aiohttp
import pytest
from aiohttp import ClientSession
from aioresponses import aioresponses
from hypothesis import example, given
from hypothesis import strategies as st

from income_client import ConnectionFailedError, IncomeClient, to_json
from income_client.emulator import Emulator, Fault
from income_client.http.endpoints import (
    ListFilter,
    addresses,
    get_application,
    get_documents,
    list_applications,
    proxy_address,
)
from income_client.testing import JumpingClock, make_application
from tests.support.clients import OAUTH
from tests.support.service import NOW, list_queries, moments, served

CHARACTERS = st.sampled_from("aZ09_.~:-/%+ ?#") | st.characters(exclude_categories=("Cc", "Cs"))
IDS = st.text(CHARACTERS, min_size=1, max_size=60).filter(lambda text: text not in {".", ".."})


@given(IDS)
@example("10:00")
def test_an_id_is_one_segment_of_the_path(application_id: str) -> None:
    """No character of the id adds a segment or a query, and the id arrives whole."""
    path = get_application(application_id).path
    assert path == f"/v1/income/applications/{quote(application_id, safe='')}"
    assert get_documents(application_id).path == path + "/documents"
    query = list_applications(list_filter=ListFilter(application_reference_id=application_id)).query
    assert parse_qs(query, strict_parsing=True) == {"application_reference_id": [application_id]}


@pytest.mark.parametrize(
    ("base_url", "api", "token"),
    [
        ("https://api.example.com", "https://api.example.com", "https://api.example.com"),
        ("https://API.Example.com/", "https://api.example.com", "https://api.example.com"),
        ("https://a.example:", "https://a.example", "https://a.example"),
        ("https://[2001:DB8::1]:443", "https://[2001:db8::1]", "https://[2001:db8::1]"),
        ("https://a.example:443/x/y/", "https://a.example/x/y", "https://a.example"),
        ("https://a.example:8443/x", "https://a.example:8443/x", "https://a.example:8443"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://127.8.9.1", "http://127.8.9.1", "http://127.8.9.1"),
        ("http://localhost:1", "http://localhost:1", "http://localhost:1"),
        ("http://[::1]:8080/p", "http://[::1]:8080/p", "http://[::1]:8080"),
        ("https://10.0.0.1", "https://10.0.0.1", "https://10.0.0.1"),
        ("https://a.example/%7Ex", "https://a.example/%7Ex", "https://a.example"),
    ],
)
def test_an_address_is_an_origin_with_a_prefix(base_url: str, api: str, token: str) -> None:
    """The prefix belongs to the API, the token endpoint is at the bare origin."""
    found = addresses(base_url)
    assert (found.api, found.token) == (api, token)


def test_the_address_of_a_proxy_is_kept_secret() -> None:
    found = proxy_address("https://user:S3CRET@proxy.example:8080/")
    assert found.reveal() == "https://user:S3CRET@proxy.example:8080/"
    assert "S3CRET" not in repr(found)


# Against the service itself


async def raw(service: Emulator, path: str) -> Any:
    """Return what the service says to anybody who asks."""
    headers = {"Authorization": service.basic.authorization().reveal()}
    async with (
        ClientSession() as session,
        session.get(service.url + path, headers=headers) as reply,
    ):
        return json.loads(await reply.read())


async def test_a_page_is_given_just_as_the_service_gives_it() -> None:
    """Unset parameters are left to the service: 25 rows, and its own bounds; 1000 rows at most."""
    async with served(1200) as (service, client):
        page = await client.get_application_page()
        assert list_queries(service) == [{}]
        assert len(page.applications) == 25
        assert json.loads(to_json(page)) == await raw(service, "/v1/income/applications")
        for limit in (1, 1000):
            assert len((await client.get_application_page(limit=limit)).applications) == limit
        await client.get_application_page("2026-06-01", "2026-06-02T03:04:05", 7, "LOAN-1")
    assert list_queries(service)[-1] == {
        "updated_after": "2026-06-01T00:00:00",
        "updated_before": "2026-06-02T03:04:05",
        "limit": "7",
        "application_reference_id": "LOAN-1",
    }


async def test_a_record_is_read_whole() -> None:
    """The record holds everything that the service sent, and pages only if requested."""
    async with served(6) as (service, client):
        for one in service.world.ids:
            path = f"/v1/income/applications/{one}"
            assert json.loads(to_json(await client.get_application(one))) == await raw(
                service, path
            )
            for pages in (False, True):
                documents = await client.get_documents(one, pages=pages)
                sent = await raw(service, f"{path}/documents" + "?pages=true" * pages)
                assert json.loads(to_json(documents)) == sent


@pytest.mark.parametrize("knobs", [{"default_span": 3600}, {"max_span": 3600}])
async def test_an_application_is_found_by_its_reference(knobs: dict[str, Any]) -> None:
    """However long ago it was updated; its summary comes back.

    A service that calls the end of time its upper bound is asked no more than another.
    """
    seconds = moments([1, 5000, 80 * 86_400])
    async with served(seconds, **knobs) as (service, client):
        for number, one in enumerate(service.world.ids):
            found = await client.find_application(service.world.reference_of(number))
            assert found is not None
            assert found.application_id == one
            assert found.application_reference_id == service.world.reference_of(number)
        asked = len(list_queries(service))
        bounds = {"updated_after": "0001-01-01T00:00:00", "updated_before": "9999-12-31T23:59:59"}
        page = json.dumps({**bounds, "applications": []}).encode()
        service.faults.add(Fault("body", body=page, path="/v1/*", times=None))
        assert await client.find_application("LOAN-00000001") is None
        assert len(list_queries(service)) <= asked + 3


@pytest.mark.parametrize(
    "knobs",
    [
        *({"future": future} for future in ("accept", "clamp", "refuse")),
        *({"future": future, "upper_closed": True} for future in ("clamp", "refuse")),
        # The question about the present is short enough for a service with a widest window.
        *({"max_span": 86_400, "span_clamp": clamp} for clamp in ("after", "before")),
    ],
)
async def test_an_application_updated_this_second_is_found(knobs: dict[str, Any]) -> None:
    """The second that the service's own upper bound hides is asked for as well."""
    async with served([NOW], **knobs) as (service, client):
        assert await client.find_application(service.world.reference_of(0)) is not None
        assert await client.find_application("LOAN-unheard-of") is None


async def test_a_call_leaves_no_reply_in_memory() -> None:
    """Otherwise only the garbage collector would close the reply's connection."""
    async with served(1) as (service, client):
        (row,) = (await client.get_application_page()).applications
        await client.get_application(row.application_id)
        gc.collect()
        gc.disable()
        try:
            await client.get_application(row.application_id)
            replies = [one for one in gc.get_objects() if isinstance(one, aiohttp.ClientResponse)]
        finally:
            gc.enable()
        # Earlier tests of this process may have left some of other services.
        assert [one for one in replies if str(one.url).startswith(service.url)] == []


# Under the mocks that users have


class MockedReply(aiohttp.ClientResponse):
    """A reply with a ``stream_writer``: aiohttp 3.14 wants one, aioresponses 0.7.9 gives none."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"stream_writer": SimpleNamespace(output_size=0), **options})


async def test_a_client_works_under_aioresponses() -> None:
    """A refused token is renewed, what may pass is retried; what no mock is for fails."""
    url, clock = "https://api.income.example", JumpingClock()
    body = to_json(make_application(application_id="app-1"))
    with aioresponses() as mocked:

        def expect(path: str, method: str = "GET", **options: Any) -> None:
            mocked.add(url + path, method, response_class=MockedReply, **options)

        for number in (1, 2):
            token = {"access_token": f"t{number}", "token_type": "Bearer", "expires_in": 3600}
            expect("/token", "POST", payload=token)
        for options in (
            {"status": 401, "headers": {"WWW-Authenticate": 'Bearer error="invalid_token"'}},
            {"status": 429, "headers": {"Retry-After": "7"}},
            {"body": body},
            {"exception": aiohttp.ServerDisconnectedError()},
            {"timeout": True},
            {"body": body + b" " * (128 * 1024 - len(body))},  # the most that it can make
        ):
            expect("/v1/income/applications/app-1", **options)
        async with IncomeClient(url, auth=OAUTH, clock=clock) as client:
            for _ in range(2):
                assert (await client.get_application("app-1")).application_id == "app-1"
            with pytest.raises(ConnectionFailedError):
                await client.get_application("app-1")
        made = [call for calls in mocked.requests.values() for call in calls]
        shown = [call.kwargs["headers"]["Authorization"] for call in made]
        assert [text for text in shown if "Bearer" in text][:3] == ["Bearer t1", *["Bearer t2"] * 2]
        assert clock.slept[0] == 7
    # It copies what requests are made with: half a copy of an event loop would complain now.
    gc.collect()
