"""Extensions by media type and by first bytes."""

import pytest

from income_client.downloads.naming import EXTENSIONS, MEDIA_TYPES, extension_of


@pytest.mark.parametrize(
    ("content_type", "extension"),
    [
        ("application/pdf", "pdf"),
        ("Application/PDF; charset=binary", "pdf"),
        ("image/jpeg", "jpg"),
        ("text/plain;charset=utf-8", "txt"),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ],
)
def test_a_media_type_that_is_known_tells(content_type: str, extension: str) -> None:
    """Its case and its parameters do not matter, nor do the bytes then."""
    assert extension_of(content_type, b"\x89PNG\r\n\x1a\n") == extension


MEDIA_TYPES_BY_EXTENSION = {
    "pdf": ("application/pdf", "application/x-pdf"),
    "png": ("image/png",),
    "jpg": ("image/jpeg", "image/jpg", "image/pjpeg"),
    "tif": ("image/tiff", "image/tif"),
    "gif": ("image/gif",),
    "bmp": ("image/bmp", "image/x-ms-bmp"),
    "webp": ("image/webp",),
    "heic": ("image/heic", "image/heif"),
    "txt": ("text/plain",),
    "csv": ("text/csv", "application/csv"),
    "json": ("application/json",),
    "xml": ("application/xml", "text/xml"),
    "html": ("text/html", "application/xhtml+xml"),
    "rtf": ("application/rtf", "text/rtf"),
    "eml": ("message/rfc822",),
    "zip": ("application/zip", "application/x-zip-compressed"),
    "doc": ("application/msword",),
    "docx": ("application/vnd.openxmlformats-officedocument.wordprocessingml.document",),
    "xls": ("application/vnd.ms-excel",),
    "xlsx": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",),
}
"""The registered names first, then those in use: a change would rename files that are there."""


def test_each_media_type_has_its_extension() -> None:
    """The whole table, by name, so that no entry of it changes unnoticed."""
    for extension, names in MEDIA_TYPES_BY_EXTENSION.items():
        assert {name: extension_of(name, b"") for name in names} == dict.fromkeys(names, extension)
        assert MEDIA_TYPES[extension] == names[0]
    assert set(EXTENSIONS) == {*MEDIA_TYPES_BY_EXTENSION, "bin"}


@pytest.mark.parametrize(
    ("head", "extension"),
    [
        (b"%PDF-1.7\n", "pdf"),
        (b"\x89PNG\r\n\x1a\n\0\0", "png"),
        (b"\xff\xd8\xff\xe0", "jpg"),
        (b"II*\0", "tif"),
        (b"MM\0*", "tif"),
        (b"GIF87a", "gif"),
        (b"GIF89a", "gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "webp"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "bin"),
        (b"\0\0\0\x18ftypheic", "heic"),
        (b"\0\0\0\x18ftypheix", "heic"),
        (b"\0\0\0\x18ftypmif1", "heic"),
        (b"\0\0\0\x18ftypisom", "bin"),
        (b"{\\rtf1\\ansi", "rtf"),
        (b"PK\x03\x04", "zip"),
        (b"BM\x10\0\0\0\0\0\0\0", "bmp"),
        (b"BMW is a car", "bin"),
        (b"<?xml version='1.0'?>", "xml"),
        (b"", "bin"),
        (b"%PD", "bin"),
    ],
)
@pytest.mark.parametrize(
    "content_type",
    [None, "", "application/octet-stream", "binary/octet-stream; x=y",
     "application/x-www-form-urlencoded", "x/../../y", "\0"],
)  # fmt: skip
def test_the_first_bytes_tell_what_the_type_does_not(
    content_type: str | None, head: bytes, extension: str
) -> None:
    """Storages call files octet-stream that nobody gave a type; nothing else decides then."""
    assert extension_of(content_type, head) == extension


def test_every_extension_is_short_and_plain() -> None:
    """They stand in file names, and those that are looked for are all there are."""
    assert all(extension.isalnum() and len(extension) <= 5 for extension in EXTENSIONS)
    assert len(set(EXTENSIONS)) == len(EXTENSIONS)
    assert set(MEDIA_TYPES) == set(EXTENSIONS) - {"bin"}
    assert all(extension_of(MEDIA_TYPES[one], b"") == one for one in MEDIA_TYPES)
    assert MEDIA_TYPES["pdf"] == "application/pdf"
