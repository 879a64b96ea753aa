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


@pytest.mark.parametrize(
    ("head", "extension"),
    [
        (b"%PDF-1.7\n", "pdf"),
        (b"\x89PNG\r\n\x1a\n\0\0", "png"),
        (b"\xff\xd8\xff\xe0", "jpg"),
        (b"II*\0", "tif"),
        (b"MM\0*", "tif"),
        (b"GIF89a", "gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "webp"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "bin"),
        (b"\0\0\0\x18ftypheic", "heic"),
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
