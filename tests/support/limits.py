"""A disk that has no room: files that cannot grow beyond some size."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_room_above(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond this many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
