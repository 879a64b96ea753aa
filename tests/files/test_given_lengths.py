"""The length of a version, once given, holds when a later reply gives none, or another one."""

from itertools import cycle
from pathlib import Path
from typing import Final

import pytest

from income_client import DownloadError, RetryPolicy
from tests.support.clients import hosting
from tests.support.downloads import files_below
from tests.support.server import Reply

CONTENT: Final = b"0123456789abcdefghij"
PATIENT: Final = RetryPolicy(max_attempts=6)


def whole(etag: str = '"1"', *, keep: int | None = None) -> Reply:
    """Return a reply that gives the file's length, of which only some bytes may come."""
    told = {"ETag": etag, "Content-Length": str(len(CONTENT))}
    return Reply(headers=told, body=CONTENT[:keep], closed=True)


def chunked(keep: int, etag: str = '"1"', *, is_ended: bool = False) -> Reply:
    """Return a reply of unknown length, with some bytes of the file."""
    told = {"ETag": etag, "Content-Length": None, "Transfer-Encoding": "chunked"}
    body = b"%x\r\n%b\r\n" % (keep, CONTENT[:keep]) + b"0\r\n\r\n" * is_ended
    return Reply(headers=told, body=body, closed=True)


def rest(first: int, total: int, etag: str = '"1"') -> Reply:
    """Return the rest of a file of this length."""
    told = {"ETag": etag, "Content-Range": f"bytes {first}-{total - 1}/{total}"}
    return Reply(status=206, headers=told, body=CONTENT[first:total], closed=True)


async def downloaded(folder: Path, *replies: Reply) -> bytes:
    """Download a file from a storage that gives these replies over and over, each cut off."""
    left = cycle(replies)
    async with hosting(lambda _: next(left), retry=PATIENT) as (client, document, _):
        await client.download(document, folder / "file")
    return files_below(folder)["file"]


async def test_a_shorter_rest_after_a_reply_without_length_starts_over(tmp_path: Path) -> None:
    """It contradicts what the first reply said of the same version."""
    replies = whole(keep=8), chunked(5), rest(5, 10), whole()
    assert await downloaded(tmp_path, *replies) == CONTENT


async def test_a_reply_without_length_that_ends_early_is_not_the_file(tmp_path: Path) -> None:
    """Its end looks whole, and the first reply said that it is not."""
    replies = whole(keep=8), chunked(12, is_ended=True), rest(12, 20)
    assert await downloaded(tmp_path, *replies) == CONTENT


async def test_another_version_has_another_length(tmp_path: Path) -> None:
    """What was said of the version before does not count."""
    replies = whole(keep=8), chunked(5, '"2"'), rest(5, 10, '"2"')
    assert await downloaded(tmp_path, *replies) == CONTENT[:10]


async def test_a_length_that_was_never_given_comes_with_the_rest(tmp_path: Path) -> None:
    """There is nothing that it contradicts."""
    assert await downloaded(tmp_path, chunked(5), rest(5, 10)) == CONTENT[:10]


async def test_a_storage_that_keeps_contradicting_itself_gives_no_file(tmp_path: Path) -> None:
    """Each contradiction starts over, and the attempts come to an end."""
    with pytest.raises(DownloadError):
        await downloaded(tmp_path, whole(keep=8), chunked(5), rest(5, 10))
    assert files_below(tmp_path) == {}
