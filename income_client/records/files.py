"""A downloaded file and the progress of a download, without URL and content."""

from pathlib import Path
from typing import Any

from attrs import frozen


@frozen(kw_only=True)
class DownloadedFile:
    """A complete file that a download wrote, or that an earlier one had written."""

    document_id: str
    """Id of the file's document."""
    application_id: str | None
    """Id of the document's application; None for a document made by hand."""
    document_type: str | None
    """The service's key of the document's type; None for a document made by hand."""
    file: int
    """Number of the file among the document's files, from 0."""
    # Any in place of None spares those who have given a folder a check that never fails.
    path: Path | Any
    """Path of the file; None if it was written to an open file."""
    size: int
    """Length of the file in bytes."""
    sha256: str
    """SHA-256 of the file's content, as 64 hexadecimal digits."""
    content_type: str | None
    """Media type that the storage reported."""
    was_there: bool
    """Whether the same file was there before, so that nothing was written."""


@frozen(kw_only=True)
class DownloadProgress:
    """Progress of the download of one file."""

    document_id: str
    """Id of the file's document."""
    application_id: str | None
    """Id of the document's application; None for a document made by hand."""
    document_type: str | None
    """The service's key of the document's type; None for a document made by hand."""
    file: int
    """Number of the file among the document's files, from 0."""
    received: int
    """Bytes received so far; the number falls if the download starts over."""
    total: int | None
    """Length of the file in bytes; None until the storage has reported it."""
