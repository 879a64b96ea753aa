"""Texts and times from outside: encode, print and parse them safely, and convert subclasses."""

import os
import re
from datetime import datetime
from typing import Final

_INVALID_OFFSET: Final = re.compile(r"[T ].*[+-]\d\d(:?\d\d)?:?[6-9]\d", re.ASCII)
"""Pattern of an offset with 60 minutes or seconds or more."""


def has_surrogate(text: str) -> bool:
    """Return whether a text contains half a surrogate pair, which no encoding can write.

    JSON and undecodable bytes of a command line or the environment can bring one.
    """
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def printable(text: str) -> str:
    """Return a text with ``?`` for each character that would move a cursor or ring a bell."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)


def reason_of(error: OSError, otherwise: str = "it cannot be used") -> str:
    """Return the reason why a system call failed, in the system's words and without a file name."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return (error.strerror or otherwise).lower()


def parse_iso_time(text: str) -> datetime:
    """Return the time that a text in ISO 8601 means; raise `ValueError` for anything else.

    Python alone reads the offset +04:60 as +05:00.
    """
    if _INVALID_OFFSET.search(text):
        raise ValueError("an offset has less than 60 minutes")
    return datetime.fromisoformat(text)


def standard_datetime(value: datetime) -> datetime:
    """Return the same time as an instance of `datetime` itself.

    Subclasses bring arithmetic of their own: a difference of pendulum's is an ``Interval``.
    Raises whatever a subclass raises that is no time, such as ``pandas.NaT``.
    """
    return datetime(
        value.year,
        value.month,
        value.day,
        value.hour,
        value.minute,
        value.second,
        value.microsecond,
        tzinfo=value.tzinfo,
        fold=value.fold,
    )
