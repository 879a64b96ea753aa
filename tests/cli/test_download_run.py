"""A run over files: what counts as its end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from income_client import DocumentEntry, IncomeClient
from income_client.cli.download_bars import Bars
from income_client.cli.download_run import DownloadRun, Wanted
from income_client.cli.manifest import Manifest
from income_client.emulator import Emulator


def run_of(service: Emulator, folder: Path) -> DownloadRun:
    """Return a run for all applications that a service holds."""
    wanted = Wanted(
        applications=service.world.ids,
        document_types=frozenset(),
        concurrency=4,
        overwrite=False,
    )
    return DownloadRun(wanted, folder, Bars(len(service.world), is_wanted=False))


@pytest.mark.usefixtures("capfd")
async def test_a_timeout_from_further_in_is_no_end(tmp_path: Path) -> None:
    """A run that nobody stopped never looks complete because something inside timed out."""
    async with (
        Emulator(3) as service,
        IncomeClient(service.url, auth=service.oauth2, downloads=service.download_policy) as client,
    ):
        run = run_of(service, tmp_path)
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
        run = run_of(service, tmp_path)
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
                        run.stop()
                assert taken.result() is None
        assert run.tally.new == 0
