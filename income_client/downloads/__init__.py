"""Document files from their addresses to their places on disk, in memory or object storage."""

from .many import DownloadFailure, Downloads

__all__ = [
    "DownloadFailure",
    "Downloads",
]
