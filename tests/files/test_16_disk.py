"""Promise 16: whichever call on the disk fails, a place has the whole file or the one before."""

import errno
import hashlib
from pathlib import Path
from typing import Final

import pytest

from income_client import Document, DownloadedFile, DownloadError, IncomeClient
from tests.support.disk_faults import FailingDisk, failing_disk
from tests.support.downloads import folder_in_memory, left_in
from tests.support.places import PDF
from tests.support.storage import storing

OLD: Final = b"an older version"
IN_PLACE: Final = "the file is in its place, but "
MD5: Final = f'"{hashlib.md5(PDF).hexdigest()}"'
"""An entity tag that tells whether a file is the same; any other does not."""
CASES: Final[dict[str, tuple[dict[str, bytes], bool, str]]] = {
    # what is there before, whether that may be replaced, the file's entity tag
    "new": ({}, False, MD5),
    "new, with leave to overwrite": ({}, True, MD5),
    "there already": ({"doc-1.pdf": PDF}, False, MD5),
    "there already, as its content shows": ({"doc-1.pdf": PDF}, False, '"v1"'),
    "another file": ({"doc-1.pdf": OLD}, True, MD5),
    "another kind of file": ({"doc-1.png": OLD}, True, MD5),
}


@pytest.mark.parametrize(
    ("name", "error", "locks"),
    [
        ("new", errno.ENOSPC, True),
        *((name, errno.EPERM, True) for name in CASES),
        *((name, errno.EIO, False) for name in CASES),
    ],
)
async def test_a_disk_may_fail_at_any_call(name: str, error: int, locks: bool) -> None:
    """The file is whole, the old one or absent; no part is left; what the error says is true."""
    before, overwrite, etag = CASES[name]
    number = 0
    async with storing() as (storage, client):
        document = storage.store("/doc-1", PDF, etag=etag)
        while True:
            with folder_in_memory() as folder:
                for there, content in before.items():
                    (folder / there).write_bytes(content)
                    (folder / there).chmod(0o600)
                with failing_disk(folder, number, error, locks=locks) as disk:
                    outcome = await downloaded(client, document, folder, overwrite=overwrite)
                    assert disk.opened == []
                check(outcome, folder, before, disk, has_md5=etag == MD5)
                # With the disk in order, the next run completes it and tidies up.
                last = await downloaded(client, document, folder, overwrite=True)
                assert isinstance(last, DownloadedFile)
                kinds = {name for name in left_in(folder) if name != "doc-1.png"}
                assert kinds == {"doc-1.pdf"}
            if disk.failed is None:
                assert isinstance(outcome, DownloadedFile)
                break
            number += 1
    assert number > (8 if before == {"doc-1.pdf": PDF} else 12)


async def downloaded(
    client: IncomeClient, document: Document, folder: Path, *, overwrite: bool
) -> DownloadedFile | DownloadError:
    """Download the file of a document into a folder; return it, or the error."""
    try:
        return await client.download(
            document, f"{folder}/", names="{document_id}.{ext}", overwrite=overwrite
        )
    except DownloadError as error:
        return error


def check(
    outcome: DownloadedFile | DownloadError,
    folder: Path,
    before: dict[str, bytes],
    disk: FailingDisk,
    *,
    has_md5: bool,
) -> None:
    left = left_in(folder)
    parts = [left.pop(name) for name in list(left) if name.endswith(".part")]
    assert parts == [] or (disk.failed == "unlink" and len(parts) == 1), disk
    if isinstance(outcome, DownloadedFile):
        assert left == {"doc-1.pdf": PDF}
        assert (outcome.path, outcome.size) == (folder / "doc-1.pdf", len(PDF))
        return
    assert left == before or (left == {**before, "doc-1.pdf": PDF} and outcome.in_place)
    assert outcome.in_place is outcome.message.partition(": ")[2].startswith(IN_PLACE)
    if left.get("doc-1.pdf") == PDF and has_md5:
        assert "cannot be kept" not in outcome.message
    assert outcome.disk_failed is (disk.error != errno.EPERM)
    assert not outcome.retryable
