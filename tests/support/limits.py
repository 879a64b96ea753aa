"""A disk that has no room: files that cannot grow beyond some size, or no further ones."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def no_room_above(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond this many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def room_for(files: int, error: int) -> Iterator[None]:
    """Let the disk take so many downloads, and fail all later ones like this, as in `errno`."""
    write, taken = os.write, set[str]()

    def limited(descriptor: int, data: bytes) -> int:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if path.endswith(".part") and path not in taken:
            if len(taken) == files:
                raise OSError(error, os.strerror(error))
            taken.add(path)
        return write(descriptor, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", limited)
        yield
