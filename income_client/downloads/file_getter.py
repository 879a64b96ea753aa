"""From the arguments of ``download`` and ``download_all`` to the function that gets a file."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Final

from income_client.errors import ConfigurationError, IncomeClientError
from income_client.records.files import DownloadedFile
from income_client.settings import is_plain_function

from .address_book import Ask
from .destinations import FoldersSeen
from .downloader import Downloader, FileJob, OnProgress, ProgressError, place_of
from .many import Get, Meant, OneDocument, meant_by
from .naming import FileFacts, NameTemplate
from .object_store import is_store

_SAMPLE: Final = FileFacts(
    application_id="a", document_type="t", document_id="d", file=0, file_reference_id="r"
)


def file_getter(
    destination: object,
    names: str,
    *,
    overwrite: bool,
    keep_partial: bool,
    on_progress: OnProgress | None,
    downloader: Callable[[], Awaitable[Downloader]],
    ask: Ask,
) -> Get:
    """Check the arguments, and return what gets the file of one document."""
    template = NameTemplate.read(names)
    place_of(destination, template, _SAMPLE)
    for name, switch in (("overwrite", overwrite), ("keep_partial", keep_partial)):
        if not isinstance(switch, bool):
            raise ConfigurationError(f"{name} must be True or False")
    if on_progress is not None and not is_plain_function(on_progress):
        raise ConfigurationError("on_progress is called, not awaited: a plain function")
    seen = FoldersSeen()

    async def get(meant: Meant) -> DownloadedFile | IncomeClientError:
        try:
            place = place_of(destination, template, meant.facts, seen)
        except ConfigurationError as error:
            return error.with_traceback(None)
        job = FileJob(
            facts=meant.facts,
            address=meant.address,
            place=place,
            overwrite=overwrite,
            keep_partial=keep_partial,
            on_progress=on_progress,
            ask=ask,
        )
        return await (await downloader()).fetch(job)

    return get


def the_one(document: object, file: int) -> Meant:
    """Return the one document that is named."""
    meant = meant_by(document, file)
    if len(meant) != 1 or not isinstance(document, OneDocument):
        raise ConfigurationError("document must be one Document; download_all takes many")
    return meant[0]


async def get_one(get: Get, meant: Meant) -> DownloadedFile:
    """Get a file, and raise what went wrong from a frame that holds nothing of it."""
    try:
        outcome = await get(meant)
    except asyncio.CancelledError as cancelled:
        # Its frames hold what was on its way.
        raise cancelled.with_traceback(None) from None
    if not isinstance(outcome, IncomeClientError):
        return outcome
    failure = outcome.raised if isinstance(outcome, ProgressError) else outcome
    del meant, get  # which know the file's name and address
    try:
        raise failure
    finally:
        del outcome, failure


def folder_or_store(directory: object) -> object:
    """Return a path as that of a folder, whether it exists or not; a store as it is."""
    if isinstance(directory, str | os.PathLike):
        path = os.fspath(directory)
        return os.path.join(path, "") if path and isinstance(path, str) else path  # noqa: PTH118 - the slash is the point
    if is_store(directory):
        return directory
    raise ConfigurationError("directory must be the path of a folder, or a store of obstore")
