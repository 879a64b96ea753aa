# pyright: strict
"""A lender's code about the client and its calls; type checkers read it, nobody runs it."""

import ssl
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from typing import assert_type

from aiohttp import ClientSession, TraceConfig

import income_client
from income_client import (
    Application,
    ApplicationDocuments,
    ApplicationPage,
    ApplicationPaginator,
    ApplicationRecord,
    ApplicationSummary,
    BasicAuth,
    DownloadPolicy,
    Fetcher,
    FetchFailure,
    IncomeClient,
    IncomeClientError,
    OAuth2ClientCredentials,
    RetryPolicy,
    Secret,
    SpanPart,
    StoredToken,
    Timeouts,
    TokenStore,
    WalkProgress,
    Window,
    split_span,
    to_json,
)
from income_client.testing import JumpingClock

assert_type(income_client.__version__, str)


class Drawer:
    """A token store of one's own."""

    def __init__(self) -> None:
        self._token: StoredToken | None = None

    async def load(self) -> StoredToken | None:
        """Return the token."""
        return self._token

    async def save(self, token: StoredToken) -> None:
        """Keep the token."""
        assert_type(token.access_token, Secret)
        assert_type(token.access_token.reveal(), str)
        assert_type(token.expires_at, datetime)
        assert_type(token.lifetime, float)
        self._token = token


def makes_clients(session: ClientSession, context: ssl.SSLContext) -> None:
    """Every argument has its type, and a text will do for a secret."""
    store: TokenStore = Drawer()
    client = IncomeClient(
        "https://income.example",
        auth=OAuth2ClientCredentials("client", "secret"),
        auth_url="https://login.example",
        session=session,
        timeouts=Timeouts(connect=5, read=10, deadline=60.5),
        retry=RetryPolicy(max_attempts=5, max_retry_after=30),
        concurrency=32,
        max_rate=200,
        token_store=store,
        service_timezone=UTC,
        downloads=DownloadPolicy(allowed_hosts=["*.amazonaws.com"], max_bytes=2**20),
        max_response_bytes=2**20,
        user_agent="lender/1.0",
        proxy="http://proxy.example:3128",
        ssl=context,
        trace_configs=[TraceConfig()],
        clock=JumpingClock(),
    )
    assert_type(client, IncomeClient)
    basic = IncomeClient("https://income.example", auth=BasicAuth("user", Secret("password")))
    assert_type(basic.with_options(timeouts=Timeouts(deadline=5)), IncomeClient)
    assert_type(basic.with_options(deadline=5), IncomeClient)
    assert_type(Timeouts(deadline=5).read, float)
    assert_type(IncomeClient.from_env(concurrency=8, max_rate=None), IncomeClient)
    assert_type(DownloadPolicy().allowed_hosts, tuple[str, ...])
    StoredToken(access_token="opaque", expires_at=datetime.now(UTC))


async def asks_once(client: IncomeClient) -> bytes:
    """Each call of one request returns its record."""
    async with client as opened:
        assert_type(opened, IncomeClient)
        page = await client.get_application_page("2026-01-01", date(2026, 6, 30), limit=25)
        assert_type(page, ApplicationPage)
        assert_type(page.updated_after, datetime)
        assert_type(page.applications, tuple[ApplicationSummary, ...])
        found = await client.find_application("loan-17")
        assert_type(found, ApplicationSummary | None)
        application = await client.get_application("app-1")
        assert_type(application, Application)
        documents = await client.get_documents("app-1", pages=True)
        assert_type(documents, ApplicationDocuments)
    await client.aclose()
    return to_json(application)


async def walks(client: IncomeClient) -> str:
    """A walk gives summaries or pages, and tells how far it is."""
    walk = client.list_applications(
        updated_after=datetime(2026, 1, 1, tzinfo=UTC),
        updated_before="2026-06-30T12:00:00",
        limit=500,
        concurrency=8,
        on_saturated="report",
        resume=None,
    )
    assert_type(walk, ApplicationPaginator)
    async for summary in walk:
        assert_type(summary, ApplicationSummary)
        assert_type(summary.application_reference_id, str)
    async for page in walk.pages():
        assert_type(page, ApplicationPage)
    assert_type(walk.progress, WalkProgress)
    assert_type(walk.progress.covered_fraction, float)
    assert_type(walk.progress.splits, int)
    assert_type(walk.saturated, tuple[Window, ...])
    for window in walk.saturated:
        assert_type(window.after, int)
        assert_type(window.starts_at, datetime)
    await walk.aclose()
    return walk.checkpoint


async def fetches(client: IncomeClient, ids: AsyncIterator[str]) -> None:
    """What is fetched is a record, and with ``on_error="yield"`` it may be a failure."""
    records = client.fetch_records(ids, documents=True, pages=False, concurrency=8)
    assert_type(records, Fetcher[ApplicationRecord])
    async for record in records:
        assert_type(record, ApplicationRecord)
        assert_type(record.documents, ApplicationDocuments | None)
        assert_type(record.last_updated_at, datetime)
    either = client.fetch_records(client.list_applications(), on_error="yield")
    async for outcome in either:
        match outcome:
            case FetchFailure(application_id, error):
                assert_type(application_id, str)
                assert_type(error, IncomeClientError)
            case _:
                assert_type(outcome, ApplicationRecord)
    async for documents in client.fetch_documents(["app-1", "app-2"]):
        assert_type(documents, ApplicationDocuments)
    async for reply in client.fetch_documents(["app-1"], on_error="yield"):
        assert_type(reply, ApplicationDocuments | FetchFailure)
    await records.aclose()


async def reads_parts(client: IncomeClient) -> None:
    """Parts of a span go through lines of JSON."""
    parts = await split_span(client, date(2026, 6, 1), None, parts=4)
    assert_type(parts, tuple[SpanPart, ...])
    for part in sorted(parts, key=lambda part: part.read_last):
        line = part.to_json()
        assert_type(line, str)
        walk = client.list_applications(part=SpanPart.from_json(line))
        assert_type(walk, ApplicationPaginator)
        assert_type(part.updated_after, datetime | None)
        assert_type(part.updated_before, datetime | None)
        assert_type(part.estimated_applications, int)
        assert_type((part.number, part.of), tuple[int, int])
