"""Faults that fall on a share of requests: decides which, and plays nothing itself.

Which requests they are hangs on a seed, the path, and how often it was asked: the same
questions meet the same faults, in whatever order they come.
"""

import re
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Annotated, Any, Final

from attrs import frozen
from cyclopts import Parameter, Token

from income_client.emulator import Fault, FaultKind, Faults
from income_client.emulator.api import Call, call_of

_PART: Final = re.compile(
    r"(?P<what>[a-z0-9]+):(?P<share>[0-9]*\.?[0-9]+)(?P<percent>%?)(@(?P<call>[a-z_]+))?"
)
_STATUS: Final = re.compile(r"[45][0-9]{2}")
_KINDS: Final = (
    FaultKind.RESET,
    FaultKind.DROP,
    FaultKind.CUT,
    FaultKind.STALL,
    FaultKind.TRICKLE,
    FaultKind.GARBAGE,
)
_CALLS: Final = {
    "list": Call.LIST_APPLICATIONS,
    "application": Call.GET_APPLICATION,
    "documents": Call.GET_DOCUMENTS,
    "file": Call.FILE,
    "token": Call.TOKEN,
}
_WHOLE: Final = 1 + 1e-9
"""All requests, but for what rounding adds."""
_NO_FAULT: Final = frozenset({Call.CONTROL, Call.INDEX})
_THROTTLED: Final = {429: {"Retry-After": "1"}}


@frozen(kw_only=True)
class FaultShare:
    """A fault, and how many of the requests it falls on."""

    name: str
    """A status, or the name of a kind."""
    fault: Fault
    """What is played."""
    share: float
    """Its share of the requests, from 0 to 1."""
    call: Call | None
    """The call that it falls on; every one where this is None."""


def read_fault_shares(text: str) -> tuple[FaultShare, ...]:
    """Read ``500:0.05,cut:1%@file``: faults with their shares, perhaps of one call only.

    Raises:
        ValueError: it cannot be meant.
    """
    shares = tuple(_read(part.strip()) for part in text.split(","))
    for call in _CALLS.values():
        if sum(one.share for one in shares if one.call in (None, call)) > _WHOLE:
            raise ValueError("the shares of a call add up to more than 1")
    return shares


def _read(part: str) -> FaultShare:
    found = _PART.fullmatch(part)
    if found is None:
        raise ValueError(
            "this has parts such as 500:0.05, cut:5% or 429:0.1@list, with commas between"
        )
    share = float(found["share"]) / (100 if found["percent"] else 1)
    if share > 1:
        raise ValueError("a share is a number from 0 to 1, or up to 100%")
    call = found["call"]
    if call is not None and call not in _CALLS:
        raise ValueError(f"a call is one of {', '.join(_CALLS)}")
    name = found["what"]
    return FaultShare(name=name, fault=_fault(name), share=share, call=_CALLS.get(call or ""))


def _fault(name: str) -> Fault:
    if _STATUS.fullmatch(name):
        status = int(name)
        return Fault("status", status=status, headers=_THROTTLED.get(status, {}), times=None)
    for kind in _KINDS:
        if name == kind.value:
            return Fault(kind, times=None)
    kinds = ", ".join(kind.value for kind in _KINDS)
    raise ValueError(f"a fault is a status from 400 to 599, {kinds}")


def _converted(_: Any, tokens: Sequence[Token]) -> tuple[FaultShare, ...]:
    return read_fault_shares(tokens[0].value)


FaultsOption = Annotated[
    tuple[FaultShare, ...],
    Parameter(
        converter=_converted, n_tokens=1, accepts_keys=False, negative=(), show_default=False
    ),
]
"""An option that takes faults with their shares."""


class SharedFaults(Faults):
    """Faults of which each falls on its share of the requests.

    Args:
        shares: the faults.
        seed: what chance hangs on.

    Attributes:
        requests: how many were looked at.
        played: how many of them each fault fell on, by its name.
    """

    def __init__(self, shares: Sequence[FaultShare], *, seed: int) -> None:
        super().__init__()
        self.requests: int = 0
        self.played: Counter[str] = Counter()
        self._shares = tuple(shares)
        self._seed = seed
        self._asked: Counter[tuple[str, str]] = Counter()

    def take(self, method: str, path: str) -> Fault | None:
        """Return the fault that falls on a request, and count it as played.

        Args:
            method: HTTP method.
            path: raw path.
        """
        call = call_of(path)
        if call in _NO_FAULT:
            return None
        self.requests += 1
        self._asked[method, path] += 1
        chance = Random(f"{self._seed} {method} {path} {self._asked[method, path]}")  # noqa: S311
        left = chance.random()
        for one in self._shares:
            if one.call not in (None, call):
                continue
            left -= one.share
            if left < 0:
                self.played[one.name] += 1
                return one.fault
        return super().take(method, path)

    def summary(self) -> str:
        """Return what was played so far, in a line."""
        counts = ", ".join(f"{name} {count:,}" for name, count in sorted(self.played.items()))
        return f"faults: {self.played.total():,} of {self.requests:,} requests ({counts or 'none'})"
