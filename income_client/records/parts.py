"""A part of a span: what one machine of several reads; knows nothing of how spans are cut."""

from datetime import datetime
from typing import Any, Final, Self

import msgspec
from attrs import asdict, fields, frozen

from income_client.errors import ConfigurationError

_VERSION: Final = 1
_LONGEST: Final = 4096
_KIND: Final = "span_part"
"""The member of a line that holds the version and identifies the kind of line."""


@frozen(kw_only=True)
class SpanPart:
    """One of the parts that `split_span` cuts a span into, for ``list_applications(part=...)``.

    Together the parts of one span are the whole of it (contract section 4.1): an application
    that is not updated meanwhile is in exactly one. Parts of two splits do not fit together.
    A part holds no personal data, and its line of JSON can go through files and queues.

    >>> part = SpanPart(
    ...     number=2,
    ...     of=3,
    ...     updated_after=datetime(2026, 6, 1, 12),
    ...     updated_before=datetime(2026, 6, 30),
    ...     estimated_applications=120_000,
    ... )
    >>> print(part)
    part 2 of 3, 2026-06-01T12:00:00 to 2026-06-30T00:00:00
    >>> SpanPart.from_json(part.to_json()) == part
    True

    Raises:
        ConfigurationError: the fields contradict each other.
    """

    number: int
    """Its place among the parts, from 1, in order of time."""
    of: int
    """How many parts there are."""
    updated_after: datetime | None
    """Lower bound, without zone in the service's frame; None for the beginning of time."""
    updated_before: datetime | None
    """Upper bound, likewise; None for the present of when it is read."""
    estimated_applications: int
    """About how many applications were in it when the span was cut."""
    read_last: bool = False
    """Whether it must be read after all others are done: it finds what was updated meanwhile."""

    def __attrs_post_init__(self) -> None:
        """Refuse what `split_span` would never make."""
        figures = (self.number, self.of, self.estimated_applications, self.read_last)
        bounds = [one for one in (self.updated_after, self.updated_before) if one is not None]
        is_sound = (
            [type(one) for one in figures] == [int, int, int, bool]
            and all(map(_is_whole_second, bounds))
            and bounds == sorted(bounds)
            and 1 <= self.number <= self.of
            and self.estimated_applications >= 0
            and (self.updated_after is not None or self.number == 1)
            and (self.updated_before is not None or self.read_last)
            and (not self.read_last or self.number == self.of)
        )
        if not is_sound:
            raise ConfigurationError("a SpanPart must be as split_span makes it")

    def __str__(self) -> str:
        after = "the beginning" if self.updated_after is None else self.updated_after.isoformat()
        before = "the present" if self.updated_before is None else self.updated_before.isoformat()
        return f"part {self.number} of {self.of}, {after} to {before}"

    def to_json(self) -> str:
        """Return the part as one line of JSON, without its end."""
        values = asdict(self, value_serializer=_written)
        return msgspec.json.encode({_KIND: _VERSION, **values}).decode()

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """Read what `to_json` wrote, and nothing else.

        Args:
            line: one line of JSON, with or without its end.

        Raises:
            ConfigurationError: it is not the line of a part, or one of a newer version.
        """
        values = _parsed(line)
        version = values.pop(_KIND, None)
        is_version = type(version) is int
        if is_version and version > _VERSION:
            raise ConfigurationError("this part was made by a newer version of this package")
        if (
            not is_version
            or version != _VERSION
            or values.keys() != {one.name for one in fields(cls)}
        ):
            raise ConfigurationError("this must be a line of JSON that split_span made")
        for name in ("updated_after", "updated_before"):
            values[name] = _read_time(values[name])
        return cls(**values)


def _written(_: object, __: object, value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _parsed(line: object) -> dict[str, Any]:
    if not isinstance(line, str | bytes) or len(line) > _LONGEST:
        return {}
    try:
        found = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _read_time(text: object) -> object:
    """Return the time that a text means; any other value is returned unchanged."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return text
    return found if found is not None and found.isoformat() == text else text


def _is_whole_second(bound: object) -> bool:
    return isinstance(bound, datetime) and bound.utcoffset() is None and not bound.microsecond
