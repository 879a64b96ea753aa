"""A bug is not reported as a failed connection: it is raised as it is, and shows no secret."""

import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from attrs import evolve

from income_client import BasicAuth, IncomeClient, OAuth2ClientCredentials
from income_client.checkpoints import MemoryCheckpointStore
from income_client.emulator import Emulator
from income_client.testing import JumpingClock

CANARY: Final = "c4n4ry"
BASIC: Final = BasicAuth("user", CANARY)


def break_look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the look-up of host names a bug."""

    def look_up(*_: Any, **__: Any) -> None:
        raise AttributeError("a bug")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def broken_hook(name: str) -> tuple[aiohttp.TraceConfig, list[None]]:
    """Return a trace hook with a bug, and a list that shows how often it was called."""
    calls: list[None] = []

    async def hook(*_: Any) -> None:
        calls.append(None)
        raise TypeError("a bug")

    trace = aiohttp.TraceConfig()
    getattr(trace, name).append(hook)
    return trace, calls


async def read_one(client: IncomeClient) -> None:
    """Make one call."""
    await client.get_application("app-1")


async def walk(client: IncomeClient) -> None:
    """List everything."""
    async for _ in client.list_applications():
        pass


async def fetch(client: IncomeClient) -> None:
    """Read several records at a time."""
    async for _ in client.fetch_records(["app-1", "app-2"]):
        pass


async def poll(client: IncomeClient) -> None:
    """Follow updates, which continues as long as failures may pass."""
    async for _ in client.poll(MemoryCheckpointStore()):
        pass


@pytest.mark.parametrize(
    "hook",
    ["on_request_start", "on_connection_create_start", "on_request_headers_sent", "on_request_end"],
)
@pytest.mark.parametrize("work", [read_one, walk, fetch, poll])
async def test_a_bug_comes_out_as_itself(
    work: Callable[[IncomeClient], Awaitable[None]], hook: str
) -> None:
    """It is not retried, not even by a poller, and shows where it was raised without variables."""
    trace, calls = broken_hook(hook)
    clock = JumpingClock()
    async with (
        Emulator(3, clock=clock) as service,
        IncomeClient(service.url, auth=BASIC, clock=clock, trace_configs=[trace]) as client,
    ):
        with pytest.raises(TypeError, match="a bug") as caught:
            await work(client)
    assert clock.slept == []
    assert len(calls) <= 4
    assert "in hook" in str(caught.value.__notes__)


async def test_a_bug_on_the_way_to_a_token_comes_out_as_itself() -> None:
    """All that wait for the token get it, and the secret is in none of their reports."""
    trace, calls = broken_hook("on_request_start")
    clock = JumpingClock()
    auth = OAuth2ClientCredentials("user", CANARY)
    async with (
        Emulator(3, clock=clock) as service,
        IncomeClient(service.url, auth=auth, clock=clock, trace_configs=[trace]) as client,
    ):
        for _ in range(2):
            with pytest.raises(TypeError, match="a bug"):
                await client.get_application("app-1")
    assert (len(calls), clock.slept) == (2, [])


async def test_a_bug_below_the_connection_comes_out_as_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wherever it is."""
    break_look_ups(monkeypatch)
    clock = JumpingClock()
    async with IncomeClient("https://service.example", auth=BASIC, clock=clock) as client:
        with pytest.raises(AttributeError, match="a bug") as caught:
            await client.get_application("app-1")
    assert clock.slept == []
    assert "in look_up" in str(caught.value.__notes__)


async def test_a_bug_of_a_download_comes_out_as_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is not retried, leaves no file, and its report shows no signed address."""
    clock = JumpingClock()
    async with (
        Emulator(3, clock=clock) as service,
        IncomeClient(service.url, auth=service.basic, clock=clock) as client,
    ):
        documents = await client.get_documents(service.world.ids[0])
        (_, document), *_ = documents.all()
        signed = f"https://files.amazonaws.com/slip?X-Amz-Signature={CANARY}"
        moved = evolve(document, url=signed)
        break_look_ups(monkeypatch)
        with pytest.raises(AttributeError, match="a bug") as caught:
            await client.download(moved, tmp_path / "slip")
    assert clock.slept == []
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240 - one look
    assert "in look_up" in str(caught.value.__notes__)
