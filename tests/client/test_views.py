"""What a view made by ``with_options`` changes, and what it leaves as it is."""

import contextlib
import io
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from income_client import (
    DeadlineExceededError,
    DownloadError,
    IncomeClient,
    IncomeClientError,
    RetryPolicy,
    Timeouts,
)
from income_client.testing import make_document
from tests.support.clients import BASIC, HERE
from tests.support.loop_time import stay_silent
from tests.support.server import ScriptedServer

IMPATIENT = Timeouts(read=5, deadline=300)
Viewed = Callable[[IncomeClient], IncomeClient]


@contextlib.asynccontextmanager
async def silent_service(**options: Any) -> AsyncIterator[tuple[str, IncomeClient]]:
    """Run a service that lets 100 seconds pass in place of a reply, and a client of one attempt."""
    usual: dict[str, Any] = {
        "auth": BASIC,
        "retry": RetryPolicy(max_attempts=1),
        "downloads": HERE,
    }
    async with (
        ScriptedServer(lambda _: stay_silent(100)) as server,
        IncomeClient(server.url, **usual | options) as client,
    ):
        yield server.url, client


async def failure(client: IncomeClient) -> IncomeClientError:
    """Make a call that fails, and return its error."""
    with pytest.raises(IncomeClientError) as caught:
        await client.get_application_page()
    return caught.value


@pytest.mark.parametrize(
    "view",
    [
        lambda client: client.with_options(timeouts=Timeouts(deadline=200)),
        lambda client: client.with_options(timeouts=Timeouts(connect=200)),
        lambda client: client.with_options(deadline=200),
        lambda client: client.with_options(deadline=600).with_options(deadline=200),
        lambda client: client.with_options(retry=RetryPolicy(max_attempts=1)),
        lambda client: client.with_options(),
    ],
    ids=["deadline in timeouts", "connect", "deadline", "view of a view", "retry", "nothing"],
)
async def test_a_limit_that_is_not_given_stays(view: Viewed) -> None:
    """The client's ``read`` of 5 s holds in the view as well, for calls and for files."""
    async with silent_service(timeouts=IMPATIENT) as (url, client):
        assert "not done within" not in (await failure(view(client))).message
        document = make_document(url=f"{url}/file")
        with pytest.raises(DownloadError) as caught:
            await view(client).download(document, io.BytesIO())
        assert caught.value.attempts == 1


@pytest.mark.parametrize(
    "view",
    [
        lambda client: client.with_options(deadline=60),
        lambda client: client.with_options(timeouts=Timeouts(deadline=60)),
        lambda client: client.with_options(deadline=60, timeouts=Timeouts(deadline=80)),
        lambda client: client.with_options(deadline=60).with_options(timeouts=Timeouts(read=900)),
    ],
    ids=["deadline", "timeouts", "deadline takes precedence", "view of a view"],
)
async def test_a_limit_that_is_given_takes_the_place_of_the_clients(view: Viewed) -> None:
    """The view's calls end by its deadline, and the client's own deadline stays."""
    async with silent_service(timeouts=Timeouts(read=900, deadline=90)) as (_, client):
        error = await failure(view(client))
        assert isinstance(error, DeadlineExceededError)
        assert error.message == "list_applications: not done within 60 s"
        assert (await failure(client)).message == "list_applications: not done within 90 s"
