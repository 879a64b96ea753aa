# pyright: strict
"""A lender's code that gets files; type checkers read it, nobody runs it."""

from io import BytesIO
from pathlib import Path
from typing import assert_type

from income_client import (
    Document,
    DownloadedFile,
    DownloadFailure,
    DownloadProgress,
    Downloads,
    IncomeClient,
    IncomeClientError,
)


def shows(progress: DownloadProgress) -> None:
    """Take note of how far a file is."""
    assert_type(progress.received, int)
    assert_type(progress.total, int | None)


async def downloads(client: IncomeClient, document: Document) -> None:
    """One file is awaited, many are iterated over."""
    one = await client.download(
        document,
        Path("files"),
        file=0,
        names="{application_id}/{document_id}.{ext}",
        overwrite=True,
        keep_partial=True,
        on_progress=shows,
    )
    assert_type(one, DownloadedFile)
    assert_type(one.path, Path | str | None)
    assert_type(one.sha256, str)
    await client.download(document, BytesIO())
    many = client.download_all([document], "files", concurrency=8)
    assert_type(many, Downloads[DownloadedFile])
    async for file in many:
        assert_type(file, DownloadedFile)
    records = client.fetch_records(["app-1"])
    async for outcome in client.download_all(records, "files", on_error="yield"):
        match outcome:
            case DownloadFailure(document_id, application_id, document_type, error):
                assert_type(document_id, str)
                assert_type(application_id, str | None)
                assert_type(document_type, str | None)
                assert_type(error, IncomeClientError)
            case _:
                assert_type(outcome, DownloadedFile)
    await many.aclose()
