"""How much memory this process has taken, as the kernel counts it."""

import resource
import sys
from pathlib import Path
from typing import Final

_STATUS: Final = Path("/proc/self/status")
_FORGET_PEAK: Final = Path("/proc/self/clear_refs")


class PeakGrowth:
    """Watches how far the resident memory grows above what it is now."""

    def __init__(self) -> None:
        try:
            _FORGET_PEAK.write_text("5")
        except OSError:
            # Without it the peak so far is the start, and only growth above that is seen.
            self._start = _peak_bytes()
        else:
            self._start = _status_bytes("VmRSS")

    @property
    def megabytes(self) -> float:
        """The largest growth so far, in millions of bytes."""
        return (_peak_bytes() - self._start) / 1e6


def _peak_bytes() -> int:
    if _STATUS.exists():
        return _status_bytes("VmHWM")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _status_bytes(name: str) -> int:
    lines = _STATUS.read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return int(kilobytes) * 1024
