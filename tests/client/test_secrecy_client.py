"""Nothing private comes out of a failing client: not in errors, their chains, frames or logs."""

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from income_client import (
    DecodeError,
    FetchFailure,
    IncomeClient,
    IncomeClientError,
    RetryPolicy,
    SaturatedWindowError,
    Timeouts,
)
from income_client.emulator import Emulator, Fault
from tests.support.leaks import held_by
from tests.support.loop_time import pass_time
from tests.support.poison import (
    APPLICATION,
    BROKEN_APPLICATIONS,
    BROKEN_DOCUMENTS,
    CANARY,
    ONE,
    TRACES,
    bodies,
    broken,
)
from tests.support.service import moments, served, until


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], str]]:
    """Log all there is at DEBUG, attributes included."""
    caplog.set_level(logging.DEBUG)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    yield lambda: stream.getvalue() + "".join(repr(vars(line)) for line in caplog.records)
    logging.getLogger().removeHandler(handler)


async def error_of(work: Awaitable[Any]) -> BaseException:
    """Return the error that something ends with; this frame holds nothing else."""
    try:
        await work
    except (IncomeClientError, TimeoutError, asyncio.CancelledError) as error:
        return error
    pytest.fail("nothing failed")


async def all_of(iterator: AsyncIterator[Any]) -> None:
    """Iterate to the end, keeping nothing."""
    async for _ in iterator:
        pass


def secrets_of(service: Emulator, client: IncomeClient) -> list[str]:
    """Return what the client must keep to itself: secrets, headers and the token in use."""
    credentials: Any = client._session.credentials
    return [
        service.oauth2.client_secret.reveal(),
        service.oauth2.authorization().reveal().split()[1],
        service.basic.password.reveal(),
        service.basic.authorization().reveal().split()[1],
        credentials._token.authorization.reveal().split()[1],
    ]


def check(error: BaseException, logs: str, secrets: list[str]) -> None:
    """Find no canary in an error, in what hangs on it, or in the logs."""
    shown = logs + "".join(held_by(one) for one in chain_of(error))
    assert [trace for trace in (*TRACES, *secrets) if trace in shown] == []


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error, its causes and its contexts."""
    while error is not None:
        yield error
        if error.__context__ is not error.__cause__:
            yield from chain_of(error.__context__)
        error = error.__cause__


@pytest.mark.parametrize("fault", BROKEN_APPLICATIONS)
async def test_an_undecodable_application_shows_nothing(
    fault: str, logged: Callable[[], str]
) -> None:
    """The error names the path of the wrong value, and neither it nor its neighbours."""
    async with served(40) as (service, client):
        application, _, _ = await bodies(client, service)
        body = broken(application, BROKEN_APPLICATIONS[fault])
        service.faults.add(Fault("body", body=body, path=APPLICATION, times=None))
        for error in (
            await error_of(client.get_application(ONE)),
            await error_of(all_of(client.fetch_records([ONE]))),
            await error_of(all_of(client.fetch_records([ONE], documents=False))),
        ):
            assert isinstance(error, DecodeError)
            assert error.faults[0].path.startswith("$.")
            check(error, logged(), secrets_of(service, client))


@pytest.mark.parametrize("fault", BROKEN_DOCUMENTS)
async def test_undecodable_documents_show_nothing(fault: str, logged: Callable[[], str]) -> None:
    """An application that arrived beside them shows nothing either."""
    async with served(40) as (service, client):
        application, documents, paystub = await bodies(client, service)
        broken(paystub, BROKEN_DOCUMENTS[fault])
        whole = json.dumps(application).encode()
        part = json.dumps(documents).encode()
        service.faults.add(
            Fault("body", body=whole, path=APPLICATION, times=None),
            Fault("body", body=part, path=f"{APPLICATION}/documents", times=None),
        )
        for error in (
            await error_of(client.get_documents(ONE)),
            await error_of(all_of(client.fetch_records([ONE]))),
            await error_of(all_of(client.fetch_documents([ONE]))),
        ):
            assert isinstance(error, DecodeError)
            check(error, logged(), secrets_of(service, client))


@pytest.mark.parametrize("kind", ["500", "403", "302", "html", "cut", "garbage", "half"])
async def test_a_failing_service_shows_nothing(kind: str, logged: Callable[[], str]) -> None:
    """Bodies and headers of replies that are errors stay where they were read."""
    async with served(40) as (service, client):
        application, _, _ = await bodies(client, service)
        body = json.dumps(application).encode()
        headers = {"X-Echo": CANARY, "Location": f"https://x.example/?key={CANARY}"}
        options: dict[str, Any] = {"body": body, "headers": headers, "times": None}
        fault = {
            "500": Fault("status", status=500, **options),
            "403": Fault("status", status=403, **options),
            "302": Fault("redirect", location=f"https://x.example/?key={CANARY}", times=None),
            "html": Fault("body", content_type="text/html", **(options | {"body": b"<p>" + body})),
            "cut": Fault("cut", times=None),
            "garbage": Fault("garbage", body=body, times=None),
            "half": Fault("body", **(options | {"body": body[:-9]})),
        }[kind]
        service.faults.add(fault)
        view = client.with_options(retry=RetryPolicy(max_attempts=2))
        check(await error_of(view.get_application(ONE)), logged(), secrets_of(service, client))
        check(await error_of(view.find_application("L")), logged(), secrets_of(service, client))
        for iterator in (
            view.fetch_records([ONE]),
            view.list_applications(),
            view.list_applications().pages(),
        ):
            check(await error_of(all_of(iterator)), logged(), secrets_of(service, client))


@pytest.mark.parametrize("kind", ["stall", "trickle"])
async def test_an_interrupted_call_shows_nothing(kind: str, logged: Callable[[], str]) -> None:
    """A deadline of the caller's, or of the client's, shows nothing of what was on its way."""
    asyncio.get_running_loop().set_debug(True)
    async with served(40) as (service, client):
        await client.get_application_page()
        service.faults.add(Fault(kind, interval=0.001, times=None))
        view = client.with_options(timeouts=Timeouts(read=1000, deadline=60))
        for asked in (client, view):
            for call in (
                lambda asked=asked: asked.get_application(service.world.ids[0]),
                lambda asked=asked: all_of(asked.fetch_records(service.world.ids)),
                lambda asked=asked: all_of(asked.list_applications(limit=10)),
            ):
                seen = len(service.requests)
                limit = 20 if asked is client else 1000
                failing = asyncio.create_task(error_of(in_time(call, limit)))
                await until(lambda: len(service.requests) > seen)  # noqa: B023 - awaited at once
                pass_time(60)
                error = await failing
                check(error, logged(), secrets_of(service, client))


async def in_time(call: Callable[[], Awaitable[Any]], seconds: float) -> None:
    """Await something within a time."""
    async with asyncio.timeout(seconds):
        await call()


async def test_a_failure_in_place_of_a_record_shows_nothing(logged: Callable[[], str]) -> None:
    """Neither the failure nor its error holds what was wrong."""
    async with served(40) as (service, client):
        application, _, _ = await bodies(client, service)
        body = broken(application, BROKEN_APPLICATIONS["ssn is a number"])
        service.faults.add(Fault("body", body=body, path=APPLICATION))
        (failure,) = [one async for one in client.fetch_records([ONE], on_error="yield")]
        assert isinstance(failure, FetchFailure)
        check(failure.error, logged() + repr(failure), secrets_of(service, client))


async def test_a_wrong_row_of_a_walk_shows_nothing(logged: Callable[[], str]) -> None:
    """The path of the wrong value names the row's place, and nothing of it."""
    row = {
        "application_id": ONE,
        "application_reference_id": 90817263,
        "application_date": f"{CANARY}-date",
        "borrower": CANARY,
    }
    page = {
        "updated_after": "2026-01-01T00:00:00",
        "updated_before": "2026-06-30T12:00:00",
        "applications": [row],
    }
    async with served(40) as (service, client):
        service.faults.add(Fault("body", body=json.dumps(page).encode(), path="/v1/*", times=None))
        error = await error_of(all_of(client.list_applications()))
        assert isinstance(error, DecodeError)
        assert {fault.path for fault in error.faults} == {
            "$.applications[0].application_reference_id",
            "$.applications[0].application_date",
        }
        check(error, logged(), secrets_of(service, client))


async def test_a_saturated_second_shows_no_secret(logged: Callable[[], str]) -> None:
    """The error carries rows, which name nobody, and nothing of the session."""
    async with served(moments([5] * 20)) as (service, client):
        error = await error_of(all_of(client.list_applications(limit=5)))
        assert isinstance(error, SaturatedWindowError)
        check(error, logged(), secrets_of(service, client))


async def test_what_is_read_is_neither_logged_nor_printed(logged: Callable[[], str]) -> None:
    """A run in which nothing fails leaves no trace of a borrower, an address or a secret."""
    async with served(10) as (service, client):
        shown = ""
        walk = client.list_applications()
        fetcher = client.fetch_records(walk)
        private = []
        async for record in fetcher:
            shown += repr(record) + repr(walk) + repr(fetcher) + repr(client)
            for applicant in record.application.applicants.values():
                private += [applicant.ssn, applicant.email, applicant.phone]
            assert record.documents is not None
            for entry in record.documents.all():
                query = parse_qs(urlsplit(entry.document.url).query)
                private += [query["X-Amz-Signature"][0]]
        shown += logged()
        assert len(private) > 30
        assert [one for one in private + secrets_of(service, client) if one in shown] == []


def test_a_leak_would_be_noticed() -> None:
    """The check sees messages, locals of frames and chains."""

    def leak(private: str) -> None:
        raise DecodeError((), retryable=len(private) > 3)

    for error in (
        DecodeError((), request_id=CANARY),
        ValueError(CANARY),
        chained(ValueError("x"), ValueError(CANARY)),
    ):
        with pytest.raises(AssertionError):
            check(error, "", [])
    with pytest.raises(DecodeError) as caught:
        leak(CANARY)
    with pytest.raises(AssertionError):
        check(caught.value, "", [])


def chained(error: Exception, context: Exception) -> Exception:
    """Return an error that came up while another was handled."""
    error.__context__ = context
    return error
