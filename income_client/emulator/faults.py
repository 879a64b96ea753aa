"""The misbehaviour to be played, as one list in order; decides, and plays nothing itself."""

import enum
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, assert_never

from attrs import field, frozen
from attrs.validators import optional

from income_client.errors import ConfigurationError

from .arguments import Validator, figure, instance, whole
from .exchange import HttpReply

_JSON: Final = "application/json"
_IS_STR: Final = instance(str, "a str")
_IS_COUNT: Final[Validator] = optional(whole(least=1))


class FaultKind(enum.Enum):
    """What goes wrong with a reply."""

    STATUS = "status"
    RESET = "reset"
    DROP = "drop"
    CUT = "cut"
    STALL = "stall"
    TRICKLE = "trickle"
    GARBAGE = "garbage"
    REDIRECT = "redirect"
    BODY = "body"


_WITHHOLDING: Final = (FaultKind.RESET, FaultKind.DROP, FaultKind.STALL, FaultKind.GARBAGE)
"""Faults that leave the client without any part of a reply."""


def _kind(value: "FaultKind | str") -> FaultKind:
    known = [kind for kind in FaultKind if value in (kind, kind.value)]
    if not known:
        raise ConfigurationError(f"a fault is one of {', '.join(kind.value for kind in FaultKind)}")
    return known[0]


@frozen
class Fault:
    """One misbehaviour and the requests that it falls on.

    ``status``, ``redirect`` and ``body`` replace the reply; ``reset``, ``drop``,
    ``stall`` and ``garbage`` leave the client without one; ``cut``, ``trickle``
    and a ``stall`` that keeps something spoil the true reply on its way.

    Args:
        kind: a `FaultKind` or its name.

    Raises:
        ConfigurationError: the kind is unknown, or a setting cannot be meant.
    """

    kind: FaultKind = field(converter=_kind)
    """What goes wrong."""
    path: str = field(default="*", kw_only=True, validator=_IS_STR)
    """Pattern of the raw path, as in a shell."""
    method: str = field(default="*", kw_only=True, validator=_IS_STR)
    """Pattern of the HTTP method."""
    times: int | None = field(default=1, kw_only=True, validator=_IS_COUNT)
    """Requests that it falls on, None for all of them."""
    skip: int = field(default=0, kw_only=True, validator=whole(least=0))
    """Matching requests that it lets pass first."""
    status: int | None = field(default=None, kw_only=True, validator=optional(whole(least=100)))
    """Status; 503, 307 for a redirect and 200 for a body unless given."""
    headers: Mapping[str, str] = field(
        factory=dict, kw_only=True, validator=instance(Mapping, "a mapping of str")
    )
    """Header fields, such as Retry-After."""
    body: bytes = field(default=b"", kw_only=True, repr=False, validator=instance(bytes, "bytes"))
    """The content of ``status`` and ``body``, and what ``garbage`` sends."""
    content_type: str = field(default=_JSON, kw_only=True, validator=_IS_STR)
    """Media type of the content."""
    location: str = field(default="/", kw_only=True, validator=_IS_STR)
    """Where a redirect leads."""
    keep: int | None = field(default=None, kw_only=True, validator=optional(whole(least=0)))
    """Bytes of the content that come first: in a cut half of them unless given, in a stall none."""
    interval: float = field(default=0.05, kw_only=True, validator=figure())
    """Seconds between two bytes of a trickle."""

    @property
    def withholds(self) -> bool:
        """Whether the client is left without any part of a reply."""
        is_late = self.kind is FaultKind.STALL and self.keep is not None
        return self.kind in _WITHHOLDING and not is_late

    def matches(self, method: str, path: str) -> bool:
        """Say whether a request is one that this falls on.

        Args:
            method: HTTP method.
            path: raw path.
        """
        return fnmatchcase(path, self.path) and fnmatchcase(method, self.method)

    def falls_now(self, path: str) -> bool:  # noqa: ARG002 - for those that count by it
        """Say whether it falls on a request that it matches; asked once for each.

        This one always does; a fault that has its time, or its chance, may count here.

        Args:
            path: raw path.
        """
        return True


def replacement(fault: Fault) -> HttpReply | None:
    """Return the reply that stands in for the true one, None if the fault needs the wire itself."""
    match fault.kind:
        case FaultKind.STATUS:
            status, extra = 503, {}
        case FaultKind.REDIRECT:
            status, extra = 307, {"Location": fault.location}
        case FaultKind.BODY:
            status, extra = 200, {}
        case (
            FaultKind.RESET
            | FaultKind.DROP
            | FaultKind.CUT
            | FaultKind.STALL
            | FaultKind.TRICKLE
            | FaultKind.GARBAGE
        ):
            return None
        case _ as never:
            assert_never(never)
    return HttpReply(
        status=fault.status or status,
        headers={"Content-Type": fault.content_type, **extra, **fault.headers},
        body=fault.body,
    )


class _Armed:
    """A fault and how much of it is left."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.skip = fault.skip
        self.left = fault.times


class Faults:
    """Faults in the order in which they were added; the first that matches is played."""

    def __init__(self) -> None:
        self._armed: list[_Armed] = []

    def __len__(self) -> int:
        return len(self._armed)

    def add(self, *faults: Fault) -> None:
        """Add faults behind those that are there.

        Raises:
            ConfigurationError: one of them is no `Fault`.
        """
        for fault in faults:
            if not isinstance(fault, Fault):
                raise ConfigurationError(f"a fault is a Fault, not {fault!r}")
        self._armed += map(_Armed, faults)

    def clear(self) -> None:
        """Forget all faults."""
        self._armed.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """Return the fault that falls on a request, and count it as played.

        A fault that still lets requests pass leaves them to those behind it.

        Args:
            method: HTTP method.
            path: raw path.
        """
        for armed in self._armed:
            if not armed.fault.matches(method, path) or not armed.fault.falls_now(path):
                continue
            if armed.skip:
                armed.skip -= 1
                continue
            if armed.left is not None:
                armed.left -= 1
                if armed.left <= 0:
                    self._armed.remove(armed)
            return armed.fault
        return None
