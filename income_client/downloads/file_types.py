"""Which extension a document's file gets; knows media types and first bytes, no file and no name.

The table is the package's own: that of the machine differs from one to the next.
"""

from typing import Final

from attrs import frozen

UNKNOWN: Final = "bin"
"""The extension of a file that nothing is known of."""

_BY_MEDIA_TYPE: Final = {
    "application/pdf": "pdf",
    "application/x-pdf": "pdf",
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/jpg": "jpg",
    "image/pjpeg": "jpg",
    "image/tiff": "tif",
    "image/tif": "tif",
    "image/gif": "gif",
    "image/bmp": "bmp",
    "image/x-ms-bmp": "bmp",
    "image/webp": "webp",
    "image/heic": "heic",
    "image/heif": "heic",
    "text/plain": "txt",
    "text/csv": "csv",
    "application/csv": "csv",
    "application/json": "json",
    "application/xml": "xml",
    "text/xml": "xml",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/rtf": "rtf",
    "text/rtf": "rtf",
    "message/rfc822": "eml",
    "application/zip": "zip",
    "application/x-zip-compressed": "zip",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}

EXTENSIONS: Final = (*dict.fromkeys(_BY_MEDIA_TYPE.values()), UNKNOWN)
"""Every extension that a file can get, the likeliest first."""

MEDIA_TYPES: Final = {
    extension: media_type for media_type, extension in reversed(_BY_MEDIA_TYPE.items())
}
"""The usual media type of each extension; that of unknown files is not among them."""


@frozen
class _Sign:
    """Bytes that tell a format."""

    extension: str
    starts: bytes
    """What the file begins with."""
    inside: bytes = b""
    """What stands further in."""
    at: int = 0
    """Where that is, in bytes from the beginning."""

    def is_in(self, head: bytes) -> bool:
        """Say whether a file that begins like this has the format."""
        return head.startswith(self.starts) and head.startswith(self.inside, self.at)


_SIGNS: Final = (
    _Sign("pdf", b"%PDF-"),
    _Sign("png", b"\x89PNG\r\n\x1a\n"),
    _Sign("jpg", b"\xff\xd8\xff"),
    _Sign("tif", b"II*\x00"),
    _Sign("tif", b"MM\x00*"),
    _Sign("gif", b"GIF87a"),
    _Sign("gif", b"GIF89a"),
    _Sign("webp", b"RIFF", b"WEBP", 8),
    _Sign("heic", b"", b"ftypheic", 4),
    _Sign("heic", b"", b"ftypheix", 4),
    _Sign("heic", b"", b"ftypmif1", 4),
    _Sign("bmp", b"BM", b"\x00\x00\x00\x00", 6),
    _Sign("zip", b"PK\x03\x04"),
    _Sign("rtf", b"{\\rtf"),
    _Sign("xml", b"<?xml"),
)

HEAD_BYTES: Final = 64
"""So much of a file's beginning is enough to tell its format."""


def extension_of(content_type: str | None, head: bytes) -> str:
    """Return the extension for a file, without the dot.

    A media type that says nothing, such as application/octet-stream, or that is
    not in the table, gives way to the file's first bytes.

    Args:
        content_type: as the reply named it; parameters and case do not matter.
        head: the file's first bytes, `HEAD_BYTES` or fewer.

    Returns:
        One of `EXTENSIONS`.
    """
    media_type = (content_type or "").partition(";")[0].strip().lower()
    named = _BY_MEDIA_TYPE.get(media_type)
    if named is not None:
        return named
    return next((sign.extension for sign in _SIGNS if sign.is_in(head)), UNKNOWN)
