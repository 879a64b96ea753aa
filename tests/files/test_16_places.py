"""Promise 16: no file name from outside is trusted, and no file is replaced unless requested."""

import asyncio
import hashlib
import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from income_client import DownloadedFile, DownloadError
from income_client.downloads.naming import (
    EXTENSIONS,
    NameTemplate,
    extension_of,
    safe_component,
)
from tests.support.disk import owned_by_another_user
from tests.support.downloads import (
    FACTS,
    check_file,
    document_at,
    files_below,
    folder_in_memory,
    left_in,
    storing,
    watched,
)

CONTENT = bytes(range(256)) * 3
DEVICES: Final = (
    *("CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"),
    *(f"{kind}{number}" for kind in ("COM", "LPT") for number in "0123456789¹²³"),
)
"""Names that Windows reads as a device, in any folder and with any extension."""
HOSTILE = st.one_of(
    st.text(max_size=300),
    st.sampled_from(
        [
            "..", ".", "", "/", "\\", "../../slip", "..\\slip", "/etc/passwd", "C:\\slip", "C:slip",
            "CON", "nul.pdf", "COM1", "lpt9.txt", "aux ", "-rf", "~root", "~", "$HOME", "a\0b",
            "a\r\nb", "\u202efdp.exe", "\ud800", "a" * 1000, "a/b", "slip.", "slip ", ".bashrc",
            "\uff0e\uff0e\uff0f", "e\u0301", "\u00e9", "SLIP", "slip", "a:b", "|", "{ext}", "%2e",
        ]
    ),
)  # fmt: skip


@given(st.lists(HOSTILE, min_size=1, max_size=3, unique=True), st.sampled_from(["id", "name"]))
@example(["..", "../..", "/"], "name")
async def test_names_from_outside_are_one_safe_component(names: list[str], field: str) -> None:
    """Each file is inside the folder with its own name; existing files are left alone."""
    template = {"id": "{document_id}.{ext}", "name": "x/{file_reference_id}"}[field]
    async with storing() as (storage, client):
        with folder_in_memory() as root:
            folder = root / "outer" / "folder"
            folder.mkdir(parents=True)
            (folder.parent / "slip").write_bytes(b"mine")
            for number, name in enumerate(names):
                content = b"content of %d" % number
                address = storage.store(f"/{number}", content).url
                document = document_at(address, f"doc-{number}")
                if field == "id":
                    document = evolve(document, document_id=name)
                document = evolve(document, file_reference_ids=(name,))
                file = await client.download(document, folder, names=template)
                assert isinstance(file.path, Path)
                check_name(file.path.name)
                assert file.path.parent == (folder if field == "id" else folder / "x")
                assert file.path.read_bytes() == content
            there = files_below(root)
            assert there.pop("outer/slip") == b"mine"
            assert sorted(there.values()) == [b"content of %d" % n for n in range(len(names))]


def check_name(name: str) -> None:
    """Check that a name is harmless on every system."""
    assert 0 < len(name.encode()) <= 255
    assert not set(name) & set('/\\:*?"<>|')
    assert not any(unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") for sign in name)
    assert name[0] not in ".-~ "
    assert name[-1] not in ". "
    assert name.partition(".")[0].rstrip(" ").upper() not in DEVICES


OTHERS: Final[dict[str, Callable[[Path, Path], None]]] = {
    "link": lambda path, outside: path.symlink_to(outside / "victim"),
    "dangling link": lambda path, outside: path.symlink_to(outside / "nothing"),
    "folder": lambda path, _: path.mkdir(),
    "pipe": lambda path, _: os.mkfifo(path),
    "link to a folder": lambda path, outside: path.symlink_to(outside),
}
"""Objects that may be in the place of a file, with functions that make them."""


@pytest.mark.parametrize("kind", OTHERS)
async def test_nothing_but_a_file_is_ever_replaced(tmp_path: Path, kind: str) -> None:
    """A link is not followed, a pipe is not waited for, and both stay as they were."""
    outside, folder = tmp_path / "outside", tmp_path / "files"
    for one in (outside, folder):
        one.mkdir()
    (outside / "victim").write_bytes(b"mine")
    OTHERS[kind](folder / "slip", outside)
    before = (folder / "slip").lstat()
    template = "slip/{document_id}" if kind == "link to a folder" else "{document_id}"
    async with storing() as (storage, client):
        document = evolve(storage.store("/a", CONTENT), document_id="slip")
        for overwrite in (True, False):
            with pytest.raises(DownloadError) as caught:
                await client.download(document, folder, names=template, overwrite=overwrite)
            assert not caught.value.retryable
            assert os.path.samestat((folder / "slip").lstat(), before)
            assert files_below(outside) == {"victim": b"mine"}
            assert [one.name for one in folder.iterdir()] == ["slip"]


@pytest.mark.parametrize("owned", ["", "inner"], ids=["folder", "folder below"])
async def test_a_folder_of_another_user_gets_no_file(tmp_path: Path, owned: str) -> None:
    """The other user could replace a folder below it by a link during a download."""
    (tmp_path / "inner").mkdir()
    said = f"its folder belongs to another user: .* by chown {os.geteuid()}$"
    async with storing() as (storage, client):
        document = storage.store("/a", CONTENT)
        with owned_by_another_user(tmp_path / owned), pytest.raises(DownloadError, match=said):
            await client.download(document, tmp_path, names="inner/{document_id}")
        assert files_below(tmp_path) == {}
        await client.download(document, tmp_path, names="inner/{document_id}")
    assert len(files_below(tmp_path)) == 1


@pytest.mark.parametrize("etag", [hashlib.md5(CONTENT).hexdigest(), "v1"], ids=["MD5", "tag"])
async def test_a_file_is_replaced_only_if_that_is_asked_for(tmp_path: Path, etag: str) -> None:
    """A file with the same content is left as it is, and causes no error."""
    path = tmp_path / "slip"
    async with storing() as (storage, client):
        document = storage.store("/a", CONTENT, etag=f'"{etag}"')
        for there in (b"another", bytes(len(CONTENT)), b""):
            path.write_bytes(there)
            with pytest.raises(DownloadError, match="another file"):
                await client.download(document, path)
            assert files_below(tmp_path) == {"slip": there}
            file = await client.download(document, path, overwrite=True)
            assert not file.was_there
            check_file(file, path, frozenset({CONTENT}))
        before = path.stat()
        for overwrite in (True, False):
            file = await client.download(document, path, overwrite=overwrite)
            assert file.was_there
            check_file(file, path, frozenset({CONTENT}))
    assert left_in(tmp_path) == {"slip": CONTENT}
    assert path.stat().st_mtime_ns == before.st_mtime_ns


async def test_a_file_with_another_extension_has_the_same_place(tmp_path: Path) -> None:
    """The extension is known after the download; any known one counts as the same file."""
    template = "{document_id}.{ext}"
    async with storing() as (storage, client):
        document = storage.store("/a", b"1,2,3", content_type="text/csv")
        await client.download(document, tmp_path, names=template)
        storage.store("/a", b"1,2,3", content_type="application/json")
        again = await client.download(document, tmp_path, names=template)
        assert (again.was_there, again.path) == (True, tmp_path / "a.csv")
        for other in (b"[1,2]", b"[1]", b"[1,2,3]"):
            storage.store("/a", other, content_type="application/json")
            with pytest.raises(DownloadError, match="another file"):
                await client.download(document, tmp_path, names=template)
        assert files_below(tmp_path) == {"a.csv": b"1,2,3"}
        await client.download(document, tmp_path, names=template, overwrite=True)
    assert files_below(tmp_path) == {"a.json": b"[1,2,3]"}


@pytest.mark.parametrize(
    ("kinds", "overwrite", "succeed"), [(8, True, 8), (8, False, 1), (1, False, 8)]
)
async def test_downloads_to_one_place_do_not_disturb_each_other(
    tmp_path: Path, kinds: int, overwrite: bool, succeed: int
) -> None:
    """One whole file remains; a download of another file is refused, or replaces it."""
    async with storing() as (storage, client):
        contents = [bytes([65 + number % kinds]) * 400_000 for number in range(8)]
        documents = [storage.store(f"/{content[:1]!r}", content) for content in contents]
        path = tmp_path / "slip"
        async with watched(path, frozenset(contents)):
            downloads = (client.download(one, path, overwrite=overwrite) for one in documents)
            found = await asyncio.gather(*downloads, return_exceptions=True)
        files = [one for one in found if isinstance(one, DownloadedFile)]
        assert all(isinstance(one, DownloadedFile | DownloadError) for one in found)
        assert len(files) == succeed
        hashes = {file.sha256 for file in files}
    ((name, content),) = left_in(tmp_path).items()
    assert name == "slip"
    assert hashlib.sha256(content).hexdigest() in hashes


# Templates


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
"""Beginnings of changed texts, before the hash; the limit counts bytes and cuts no character."""


def test_a_text_that_is_changed_is_marked() -> None:
    """A changed text ends with a part of its own hash; a safe text stays as it is."""
    for text in SAFE:
        assert safe_component(text) == text
    for text, stem in CHANGED.items():
        assert re.fullmatch(re.escape(stem) + "~[0-9a-f]{8}", safe_component(text))


def test_no_file_is_named_like_a_device() -> None:
    for name in DEVICES:
        for text in (name, name.lower(), f"{name}.pdf", f"{name} .a"):
            assert safe_component(text)[:-9] == f"_{text}"
        assert safe_component(f"{name}X") == f"{name}X"


@given(st.lists(st.one_of(ANY_TEXT, NASTY), unique=True, max_size=20))
def test_two_texts_never_meet_in_one_name(texts: list[str]) -> None:
    """Different texts get different names, and no text's name is another text."""
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
"""A change would rename files that are there."""


def test_each_media_type_has_its_extension() -> None:
    for extension, names in MEDIA_TYPES_BY_EXTENSION.items():
        for name in names:
            spellings = (name, name.upper(), f"{name}; charset=binary", f"{name};charset=utf-8")
            for content_type in spellings:
                assert extension_of(content_type, b"\x89PNG\r\n\x1a\n") == extension
    assert sorted(EXTENSIONS) == sorted([*MEDIA_TYPES_BY_EXTENSION, "bin"])


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
