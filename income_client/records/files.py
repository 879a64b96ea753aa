"""A downloaded file and the progress of a download, without URL and content."""

from pathlib import Path
from typing import Any

from attrs import frozen


@frozen(kw_only=True)
class DownloadedFile:
    """A complete file that a download wrote, or that an earlier one had written.

    Attributes:
        document_id: id of the file's document.
        application_id: id of the document's application; None for a document made by hand.
        document_type: the service's key of the document's type; None for a document made by hand.
        file: number of the file among the document's files, from 0.
        path: path of the file; None if it was written to an open file.
        size: length of the file in bytes.
        sha256: SHA-256 of the file's content, as 64 hexadecimal digits.
        content_type: media type that the storage reported.
        was_there: whether the same file was there before, so that nothing was written.
    """

    document_id: str
    application_id: str | None
    document_type: str | None
    file: int
    # Any in place of None spares those who have given a folder a check that never fails.
    path: Path | Any
    size: int
    sha256: str
    content_type: str | None
    was_there: bool


@frozen(kw_only=True)
class DownloadProgress:
    """Progress of the download of one file.

    Attributes:
        document_id: id of the file's document.
        application_id: id of the document's application; None for a document made by hand.
        document_type: the service's key of the document's type; None for a document made by hand.
        file: number of the file among the document's files, from 0.
        received: bytes received so far; the number falls if the download starts over.
        total: length of the file in bytes; None until the storage has reported it.
    """

    document_id: str
    application_id: str | None
    document_type: str | None
    file: int
    received: int
    total: int | None
