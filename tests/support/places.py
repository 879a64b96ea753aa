"""A file that goes to a place, as a download does it."""

import hashlib
from pathlib import Path
from typing import Final

from attrs import frozen

from income_client.downloads.destinations import Place
from income_client.downloads.naming import FileFacts, NameTemplate
from income_client.downloads.temporary_file import Spool
from income_client.errors import DownloadError

FACTS: Final = FileFacts(
    application_id="app-1",
    document_type="paystub",
    document_id="doc-1",
    file=0,
    file_reference_id=None,
)
SORTED: Final = NameTemplate.read("{application_id}/{document_type}/{document_id}-{file}.{ext}")
FLAT: Final = NameTemplate.read("{document_id}.{ext}")

PDF: Final = b"%PDF-1.7\n" + b"x" * 1000
LONG: Final = b"%PDF-1.7\n" + bytes(range(256)) * 10_000


@frozen
class Landed:
    """Where a file is that was put to a place, and whether it was there before."""

    path: Path | str | None
    was_there: bool


async def put(
    place: Place,
    content: bytes,
    *,
    content_type: str | None = None,
    overwrite: bool = False,
) -> Landed | DownloadError:
    """Write a file in pieces, and publish it."""
    try:
        async with Spool(place.create) as spool:
            for start in range(0, len(content), 300_000):
                await spool.write(content[start : start + 300_000])
            published = await place.publish(spool, content_type=content_type, overwrite=overwrite)
            assert published.size == len(content)
            assert published.sha256 == hashlib.sha256(content).hexdigest()
            return Landed(published.path, published.was_there)
    except DownloadError as error:
        return error.again()
