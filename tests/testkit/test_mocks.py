"""Doubles of aiohttp that users have: cassettes without anybody's data, and a mocked server."""

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import vcr
from aiointercept import aiointercept

from income_client import (
    AuthenticationError,
    DecodeError,
    DownloadedFile,
    IncomeClient,
    NotFoundError,
    OAuth2ClientCredentials,
    ServerError,
    to_json,
)
from income_client.emulator import Emulator, Fault
from income_client.testing import JumpingClock, cassette_filters, make_application
from tests.support.examples import served

KEPT: Final = re.compile(
    r"application_(id|date|reference_id)|(document|file)_ids?|(last_)?updated_\w+|data_action"
)
SHORTEST: Final = 4
"""Letters of a text that is looked for; a shorter one may be anywhere."""


def values_in(payload: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value of a payload with the name of its field."""
    if isinstance(payload, dict):
        for key, inner in payload.items():
            yield from values_in(inner, key)
    elif isinstance(payload, list):
        for inner in payload:
            yield from values_in(inner, name)
    else:
        yield name, payload


def data_of(service: Emulator, application_id: str) -> set[str]:
    """Return every text and amount that the service has about the borrowers of an application."""
    return {
        str(value)
        for rest in ("", "/documents")
        for name, value in values_in(served(service, application_id, rest))
        if not KEPT.fullmatch(name)
        if isinstance(value, Decimal) or (isinstance(value, str) and len(value) >= SHORTEST)
    }


async def use(client: IncomeClient, application_id: str) -> list[Any]:
    """Make calls of every kind; return an application, then what is left of all without data."""
    page = await client.get_application_page(limit=10)
    application = await client.get_application(application_id)
    documents = await client.get_documents(application_id, pages=True)
    found = await client.find_application(application.application_reference_id)
    with pytest.raises(NotFoundError):
        await client.get_application("app-unknown")
    people = sorted(application.applicants)
    ids = [(kind, document.document_id) for kind, document in documents.all()]
    return [application, page, found, application.last_updated_at, people, ids]


def traced(sent: set[str]) -> aiohttp.TraceConfig:
    """Return a hook that collects the Authorization headers of requests."""

    async def collect(
        _: object, __: object, request: aiohttp.TraceRequestHeadersSentParams
    ) -> None:
        sent.add(request.headers["Authorization"])

    config = aiohttp.TraceConfig()
    config.on_request_headers_sent.append(collect)
    return config


@pytest.mark.parametrize("scheme", ["oauth2", "basic"])
async def test_a_cassette_holds_no_secret_and_no_data(tmp_path: Path, scheme: str) -> None:
    """The cassette of a session replays it without the service, with x and 1 for the data."""
    cassette = tmp_path / "cassette.yaml"
    sent: set[str] = set()
    recorder = vcr.VCR(**cassette_filters())
    async with Emulator(3) as service:
        url, auth = service.url, getattr(service, scheme)
        one = service.world.ids[0]
        policy = service.download_policy
        with recorder.use_cassette(cassette):
            async with IncomeClient(
                url, auth=auth, downloads=policy, trace_configs=[traced(sent)]
            ) as client:
                _, *recorded = await use(client, one)
                documents = await client.get_documents(one)
                files = [file async for file in client.download_all(documents, tmp_path / "files")]
        data = data_of(service, one)

    assert all(isinstance(file, DownloadedFile) for file in files)
    assert len(files) == len(recorded[-1]) > 1
    text = re.sub(r"\s+", " ", cassette.read_text("utf-8"))
    secrets = {words.partition(" ")[2] for words in sent}
    assert len(data) > 30
    assert len(secrets) == (2 if scheme == "oauth2" else 1)
    assert [value for value in (*data, *secrets, "X-Amz", "uthorization") if value in text] == []
    with recorder.use_cassette(cassette, record_mode="none"):
        async with IncomeClient(url, auth=auth, clock=JumpingClock()) as client:
            application, *replayed = await use(client, one)
    assert replayed == recorded
    people = application.applicants.values()
    assert all(set(person.first_name + person.ssn) == {"x", "1"} for person in people)


async def test_what_is_not_the_service_s_own_is_not_recorded(tmp_path: Path) -> None:
    """The page of a proxy, say, may hold anything; its status is recorded."""
    cassette = tmp_path / "cassette.yaml"
    async with Emulator(1) as service:
        page = Fault("body", call="get_application", body=b"<h1>Jane Doe</h1>", times=None)
        service.faults.add(page)
        auth = service.oauth2
        with vcr.VCR(**cassette_filters()).use_cassette(cassette):
            async with IncomeClient(service.url, auth=auth, clock=JumpingClock()) as client:
                with pytest.raises(DecodeError):
                    await client.get_application("app-1")
    text = cassette.read_text("utf-8")
    assert "Jane" not in text
    assert text.count("code: 200") == 4


async def test_a_server_of_mocks_is_called_like_the_service() -> None:
    """What aiointercept replies comes over a real connection, refusals and failures too."""
    token = {"access_token": "token-1", "token_type": "Bearer", "expires_in": 3600}
    application = make_application(application_id="app-1")
    clock = JumpingClock()
    async with aiointercept() as mocked:
        url = mocked.server_url
        call = f"{url}/v1/income/applications/app-1"
        mocked.post(f"{url}/token", payload=token)
        mocked.get(call, status=429, headers={"Retry-After": "7"})
        mocked.get(call, body=to_json(application))
        auth = OAuth2ClientCredentials("an-id", "a-secret")
        async with IncomeClient(url, auth=auth, clock=clock) as client:
            assert await client.get_application("app-1") == application
            assert clock.slept == [7]
            mocked.get(call, status=503, repeat=True)
            with pytest.raises(ServerError):
                await client.get_application("app-1")
        mocked.post(f"{url}/token", status=401)
        async with IncomeClient(url, auth=auth, clock=clock) as client:
            with pytest.raises(AuthenticationError):
                await client.get_application("app-1")
