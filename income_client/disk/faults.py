"""What a failure of the disk is called; knows no path, since names can tell of people."""

import os

from income_client.errors import DownloadError


def disk_fault(error: OSError) -> DownloadError:
    """Return the error of ours for one of the operating system, with that one's own words.

    It is not retryable: the network, which a retry is for, has nothing to do with it.
    """
    reason = error.strerror or os.strerror(error.errno or 0)
    return DownloadError(f"the file cannot be kept: {reason[:1].lower()}{reason[1:]}")
