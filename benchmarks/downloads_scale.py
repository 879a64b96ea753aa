"""How much is downloaded: the figures of the goals, and small ones to try the benchmark itself."""

from typing import Final

from attrs import frozen


@frozen(kw_only=True)
class DownloadScale:
    """The sizes of all loads; each is bounded by them."""

    large_bytes: int
    """Size of the one large file."""
    rounds: int
    """Times that things are alternated which are compared."""
    files: int
    """Small files of one round."""
    file_bytes: int
    """Size of each."""
    concurrency: int
    """Small files on their way at a time."""
    cut_bytes: int
    """Size of the file that is cut."""
    cuts: int
    """Connections that are cut before the one that brings the rest."""


FULL: Final = DownloadScale(
    large_bytes=2**30,
    rounds=5,
    files=500,
    file_bytes=100_000,
    concurrency=8,
    cut_bytes=64 * 2**20,
    cuts=5,
)
"""What the goals are about."""

QUICK: Final = DownloadScale(
    large_bytes=4 * 2**20,
    rounds=1,
    files=20,
    file_bytes=10_000,
    concurrency=4,
    cut_bytes=4 * 2**20,
    cuts=2,
)
"""Enough to see every row; its figures mean nothing."""
