"""Sizes as people write them; knows nothing of what has them."""

import re
from collections.abc import Sequence
from typing import Any, Final

from cyclopts import Token

_SIZE: Final = re.compile(r"(?P<count>[0-9]+(\.[0-9]+)?) ?(?P<unit>[A-Za-z]*)", re.ASCII)
_UNITS: Final = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}
_LARGEST: Final = 2**31
_LONGEST: Final = 24


def read_size(text: str) -> int:
    """Return the bytes of a size such as ``500kB``, ``1.5 MB``, ``2MiB`` or ``20000``.

    Raises:
        ValueError: it is none, or not one byte to 2 GiB.
    """
    found = _SIZE.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    unit = None if found is None else _UNITS.get(found["unit"].lower())
    if found is None or unit is None:
        raise ValueError("a size is a number of bytes, or one with kB, MB, GB, KiB, MiB or GiB")
    size = round(float(found["count"]) * unit)
    if not 1 <= size <= _LARGEST:
        raise ValueError("a size is one byte to 2 GiB")
    return size


def byte_count(_: Any, tokens: Sequence[Token]) -> int:
    """Convert the value of an option, for cyclopts."""
    return read_size(tokens[0].value)
