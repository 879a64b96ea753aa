"""aiohttp's own instrumentation beside the client: requests are seen, their secrets are not."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import aiohttp
import pytest

pytest.importorskip(
    "opentelemetry.instrumentation.aiohttp_client", reason="it comes with the extra 'full'"
)

from opentelemetry.instrumentation.aiohttp_client import (
    AioHttpClientInstrumentor,
    create_trace_config,
)
from yarl import URL

from income_client import IncomeClient
from income_client.emulator import Emulator
from income_client.testing import JumpingClock
from tests.support.clients import BASIC, call, playing
from tests.support.server import in_turn, reply
from tests.support.telemetry import Collected


def host_alone(url: URL) -> str:
    """Return what the README lets a span say of an address."""
    return str(url.origin())


@contextmanager
def every_session(**options: Any) -> Iterator[None]:
    """Instrument every session of the process."""
    instrumentor: Any = AioHttpClientInstrumentor()
    instrumentor.instrument(**options)
    try:
        yield
    finally:
        instrumentor.uninstrument()


async def read_everything(service: Emulator, folder: Path, **options: Any) -> list[str]:
    """Read records and their files; return what none of it may show."""
    async with IncomeClient(
        service.url,
        auth=service.oauth2,
        clock=JumpingClock(),
        downloads=service.download_policy,
        **options,
    ) as client:
        records = [record async for record in client.fetch_records(service.world.ids)]
        files = [file async for file in client.download_all(records, folder)]
        await client.find_application(service.world.reference_of(0))
    assert files
    signed = [request for request in service.requests if request.name == "file"]
    assert signed
    values = {
        value
        for request in signed
        for name, found in parse_qs(request.query).items()
        for value in found
        if name in ("X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token")
    }
    assert values
    references = [service.world.reference_of(number) for number in range(len(service.world.ids))]
    return [*values, "X-Amz", "Bearer", service.oauth2.client_secret.reveal(), *references]


@pytest.mark.parametrize("is_every", [True, False], ids=["every session", "a borrowed one"])
async def test_a_filter_keeps_ids_out_as_well(
    is_every: bool, exported: Collected, tmp_path: Path
) -> None:
    """Each request to the service has one span, which says the host alone; files have none."""
    async with Emulator(4) as service:
        if is_every:
            with every_session(url_filter=host_alone):
                private = await read_everything(service, tmp_path)
        else:
            hooks = [create_trace_config(url_filter=host_alone)]
            async with aiohttp.ClientSession(trace_configs=hooks) as session:
                private = await read_everything(service, tmp_path, session=session)
        ids = service.world.ids
    files = sum(request.name == "file" for request in service.requests)
    seen = exported.named("GET") + exported.named("POST")
    assert len(seen) == len(service.requests) - files
    shown = exported.shown()
    assert [one for one in (*private, *ids) if one in shown] == []


async def test_signed_addresses_are_shown_to_nobody(exported: Collected, tmp_path: Path) -> None:
    """Not even to an instrumentation of all sessions that filters nothing."""
    async with Emulator(4) as service:
        with every_session():
            private = await read_everything(service, tmp_path)
    shown = exported.shown()
    assert "/v1/income/applications" in shown
    kept = [one for one in private if not one.startswith("LOAN-")]
    assert len(kept) < len(private)
    assert [one for one in kept if one in shown] == []


async def test_aiohttp_s_own_spans_stand_below(exported: Collected) -> None:
    """Hooks of a session that the client borrows see the attempt as their parent."""
    answers = in_turn(reply(503), reply())
    async with (
        aiohttp.ClientSession(trace_configs=[create_trace_config()]) as session,
        playing(answers, auth=BASIC, session=session) as (manager, _, _),
    ):
        await call(manager)
    attempts = exported.named("GET /v1/income/applications/{application_id}")
    requests = exported.named("GET")
    assert len(requests) == 2
    for request, attempt in zip(requests, attempts, strict=True):
        assert request.parent is not None
        assert attempt.context is not None
        assert request.parent.span_id == attempt.context.span_id
