"""A run over files: what counts as its end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from income_client import (
    DocumentEntry,
    DownloadFailure,
    DownloadPolicy,
    IncomeClient,
    UnsafeLinkError,
)
from income_client.cli.downloads.bars import Bars
from income_client.cli.downloads.manifest import Manifest
from income_client.cli.downloads.run import DownloadRun, Wanted
from income_client.cli.stopping.stoppable import Stoppable
from income_client.emulator import Emulator
from income_client.protocol.links import read_link
from income_client.protocol.peers import peer_refusal


def run_of(service: Emulator, folder: Path, stop: Stoppable) -> DownloadRun:
    """Return a run for all applications that a service holds."""
    wanted = Wanted(
        applications=service.world.ids,
        document_types=frozenset(),
        concurrency=4,
        overwrite=False,
    )
    return DownloadRun(wanted, folder, Bars(len(service.world), is_wanted=False), stop)


@pytest.mark.usefixtures("capfd")
async def test_a_timeout_from_further_in_is_no_end(tmp_path: Path) -> None:
    """A run that nobody stopped never looks complete because something inside timed out."""
    async with (
        Emulator(3) as service,
        IncomeClient(service.url, auth=service.oauth2, downloads=service.download_policy) as client,
    ):
        run = run_of(service, tmp_path, Stoppable())
        with Manifest(tmp_path) as manifest:

            async def cut_short() -> AsyncIterator[DocumentEntry]:
                async for entry in run.missing(client, manifest):
                    yield entry
                    raise TimeoutError

            downloads = client.download_all(cut_short(), tmp_path, on_error="yield")
            with pytest.raises(TimeoutError):
                await run.take(downloads, manifest)
        assert run.tally.new <= 1


@pytest.mark.usefixtures("capfd")
async def test_a_run_that_was_stopped_ends(tmp_path: Path) -> None:
    """Stopped while it waits, or before it began, a run ends without a failure."""
    async with (
        Emulator(3) as service,
        IncomeClient(service.url, auth=service.oauth2, downloads=service.download_policy) as client,
    ):
        stop = Stoppable()
        run = run_of(service, tmp_path, stop)
        is_asked = asyncio.Event()

        async def never() -> AsyncIterator[DocumentEntry]:
            is_asked.set()
            await asyncio.Event().wait()
            yield  # type: ignore[misc]  # makes it a generator

        with Manifest(tmp_path) as manifest:
            for is_early in (False, True):
                downloads = client.download_all(never(), tmp_path, on_error="yield")
                async with asyncio.TaskGroup() as tasks:
                    taken = tasks.create_task(run.take(downloads, manifest))
                    if not is_early:
                        await is_asked.wait()
                        stop.stop()
                assert taken.result() is None
        assert run.tally.new == 0


@pytest.mark.parametrize(
    ("refusal", "hint"),
    [
        (read_link("https://files.example/x", DownloadPolicy()), "name with --allow-host"),
        (read_link("http://a.amazonaws.com/x", DownloadPolicy()), "plain http is only for this"),
        (peer_refusal("10.0.0.1", DownloadPolicy()), "with --allow-private-networks"),
        (peer_refusal("127.0.0.1", DownloadPolicy()), "from this machine if --allow-host names"),
        (peer_refusal("169.254.169.254", DownloadPolicy()), ""),
        (peer_refusal("203.0.113.1", DownloadPolicy()), ""),
    ],
)
async def test_a_hint_names_the_option(
    refusal: UnsafeLinkError, hint: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A refusal is told once, the rest is counted, and what would allow it comes last."""
    async with Emulator(1) as service:
        run = run_of(service, tmp_path, Stoppable())
    failure = DownloadFailure(
        application_id="app-1",
        document_type="paystub",
        document_id="doc-1",
        error=UnsafeLinkError("in other words", reason=refusal.reason),
    )
    for _ in range(3):
        run._tell_failed(failure)
    (said,) = capfd.readouterr().err.splitlines()
    assert said == "income-client: app-1: doc-1: in other words"
    more, *hints = run.refusals.rest()
    assert more == "the same of 2 more files: in other words"
    assert len(hints) == bool(hint)
    assert hint in "".join(hints)
    assert run.tally.failed == 3
