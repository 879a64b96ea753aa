"""A downloaded file and the progress of a download, without its address and content."""

from pathlib import Path

from attrs import frozen


@frozen(kw_only=True)
class DownloadedFile:
    """A file that was downloaded, or was there already, complete."""

    document_id: str
    """The document that it is of."""
    application_id: str | None
    """The application that the document belongs to; None for a document made by hand."""
    document_type: str | None
    """The service's key of the document's type; None likewise."""
    file: int
    """Which of the document's files."""
    path: Path | None
    """Where it is; None for an open file."""
    size: int
    """Its length in bytes."""
    sha256: str
    """SHA-256 of its content, 64 hexadecimal digits."""
    content_type: str | None
    """Media type that the storage reported."""
    was_there: bool
    """Whether the very file was there already, and nothing was written."""


@frozen(kw_only=True)
class DownloadProgress:
    """How far the download of one file has come."""

    document_id: str
    """The document that it is of."""
    application_id: str | None
    """The application that the document belongs to; None for a document made by hand."""
    document_type: str | None
    """The service's key of the document's type; None likewise."""
    file: int
    """Which of the document's files."""
    received: int
    """Bytes that are there; fewer than before if the download had to start over."""
    total: int | None
    """Bytes that there will be; None until the storage has reported it."""
