"""Names of files: templates, texts from outside as components of paths, extensions."""

import re
from typing import Final

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client.downloads.naming import (
    EXTENSIONS,
    MEDIA_TYPES,
    NameTemplate,
    extension_of,
    safe_component,
)
from tests.support import places

# Templates


FACTS = evolve(places.FACTS, file_reference_id="ref-1")


def test_a_template_is_text_with_plain_fields() -> None:
    template = NameTemplate.read("{{x}}/{file} b/{document_type} {document_id}.{ext}")
    made = template.of(FACTS)
    assert made.folders == ("{x}", "0 b")
    assert made.with_extension("pdf") == "paystub doc-1.pdf"


def test_a_name_that_becomes_that_of_a_device_is_changed() -> None:
    """A template's text and a fact can be harmless apart and not together."""
    facts = evolve(FACTS, document_id="N")
    assert NameTemplate.read("CO{document_id}.{ext}").of(facts).with_extension("txt") == "_CON.txt"


# Texts from outside


ANY_TEXT = st.text(st.characters(), max_size=200)
NASTY = st.text(st.sampled_from('aA.~-_ /\\:*?"<>|\0\n\u202e\ud800é\u0301CON1¹😀0f'), max_size=12)


SAFE = (
    *("a", "doc-1", "2f6c1a3e-0000-4000-8000-1234567890ab", "Größe", "a b", "a.pdf", "x" * 120),
    "a~b",
)
CHANGED = {
    "": "_", ".": "_", "..": "_", " a ": "a", "a.": "a", "../../etc/passwd": "_.._etc_passwd",
    "/etc/passwd": "_etc_passwd", "C:\\x": "C__x", "-rf": "rf", "~root": "root",
    "a\0b\nc\x7f": "abc", "gpj\u202efdp": "gpjfdp", "a\ufeff\u200bb": "ab",
    "a\u2028b\ue000c\ud800d\U000e0001": "abcd", "a\u00a0b": "a_b", "e\u0301": "é",
    "e\u200b\u0301": "é", "CON": "_CON", "nul.txt": "_nul.txt", "Com¹": "_Com¹",
    "lpt9 .a.b": "_lpt9 .a.b", "a~12345678": "a~12345678", "a~ABCDEF00": "a~ABCDEF00",
    "é" * 61: "é" * 55,
}  # fmt: skip
"""What is left of texts before their hash; the limit is one of bytes, and cuts no character."""


def test_a_text_that_is_changed_is_marked() -> None:
    """It ends with a part of its own hash; one that is safe stays as it is."""
    for text in SAFE:
        assert safe_component(text) == text
    for text, stem in CHANGED.items():
        assert re.fullmatch(re.escape(stem) + "~[0-9a-f]{8}", safe_component(text))


DEVICES: Final = (
    *("CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"),
    *(f"{kind}{number}" for kind in ("COM", "LPT") for number in "0123456789¹²³"),
)
"""Names that Windows reads as a device, in any folder and with any extension."""


def test_no_file_is_named_like_a_device() -> None:
    for name in DEVICES:
        for text in (name, name.lower(), f"{name}.pdf", f"{name} .a"):
            assert safe_component(text)[:-9] == f"_{text}"
        assert safe_component(f"{name}X") == f"{name}X"


@given(st.lists(st.one_of(ANY_TEXT, NASTY), unique=True, max_size=20))
def test_two_texts_never_meet_in_one_name(texts: list[str]) -> None:
    """What differs before differs after, and the result of one text is not that of another."""
    texts = list(dict.fromkeys([*texts, *map(safe_component, texts)]))
    assert len({safe_component(text) for text in texts}) == len(texts)


# Extensions


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
    for extension, names in MEDIA_TYPES_BY_EXTENSION.items():
        for name in names:
            spellings = (name, name.upper(), f"{name}; charset=binary", f"{name};charset=utf-8")
            for content_type in spellings:
                assert extension_of(content_type, b"\x89PNG\r\n\x1a\n") == extension
        assert MEDIA_TYPES[extension] == names[0]
    assert sorted(EXTENSIONS) == sorted([*MEDIA_TYPES_BY_EXTENSION, "bin"])
    assert MEDIA_TYPES.keys() == MEDIA_TYPES_BY_EXTENSION.keys()


HEADS = {
    b"%PDF-1.7\n": "pdf", b"%PD": "bin", b"": "bin", b"\x89PNG\r\n\x1a\n\0\0": "png",
    b"\xff\xd8\xff\xe0": "jpg", b"II*\0": "tif", b"MM\0*": "tif", b"GIF87a": "gif",
    b"GIF89a": "gif", b"RIFF\x10\0\0\0WEBPVP8 ": "webp", b"RIFF\x10\0\0\0WAVEfmt ": "bin",
    b"\0\0\0\x18ftypheic": "heic", b"\0\0\0\x18ftypheix": "heic",
    b"\0\0\0\x18ftypmif1": "heic", b"\0\0\0\x18ftypisom": "bin", b"{\\rtf1\\ansi": "rtf",
    b"PK\x03\x04": "zip", b"<?xml version='1.0'?>": "xml", b"BM\x10\0\0\0\0\0\0\0": "bmp",
    b"BMW is a car": "bin",
}  # fmt: skip
UNTOLD = (
    *(None, "", "application/octet-stream", "binary/octet-stream; x=y"),
    *("application/x-www-form-urlencoded", "x/../../y", "\0"),
)


def test_the_first_bytes_tell_what_the_type_does_not() -> None:
    """Storages call files octet-stream that nobody gave a type; nothing else decides then."""
    for content_type in UNTOLD:
        assert {head: extension_of(content_type, head) for head in HEADS} == HEADS
