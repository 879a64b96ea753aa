"""Faults of the disk, in the words of the system and without a path."""

import errno
import os

import pytest

from income_client.downloads.part_file import disk_fault


@pytest.mark.parametrize(
    "number",
    [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.ENAMETOOLONG],
)
def test_a_fault_has_the_words_of_the_system(number: int) -> None:
    """Its path is left out: names of files can tell of people."""
    fault = disk_fault(OSError(number, os.strerror(number), "/home/S3CRET", None, "/S3CRET"))
    words = os.strerror(number)
    assert str(fault) == f"the file cannot be kept: {words[0].lower()}{words[1:]}"
    assert not fault.retryable


def test_one_without_words_gets_them() -> None:
    """A number is enough, and so is nothing."""
    assert "cannot be kept" in str(disk_fault(OSError()))
    assert "cannot be kept" in str(disk_fault(OSError("odd")))
