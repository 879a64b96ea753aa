"""Faults bound to a call, a span of time or a chance; decides, and plays nothing itself."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final
from urllib.parse import unquote

from attrs import asdict, field, frozen
from attrs.validators import optional

from income_client.emulator import Fault
from income_client.emulator.api import Call, call_of
from income_client.emulator.arguments import figure, whole

CALLS: Final = tuple(
    call.value
    for call in (
        Call.LIST_APPLICATIONS,
        Call.GET_APPLICATION,
        Call.GET_DOCUMENTS,
        Call.TOKEN,
        Call.FILE,
    )
)
"""Names of the calls that faults and requests are told apart by."""
_DIGITS: Final = 6


@frozen
class PlannedFault(Fault):
    """A fault that falls on one kind of call, for some time, or by chance."""

    call: str | None = field(default=None, kw_only=True)
    """The call that it falls on; None for any of the API's three and nothing else."""
    named: str | None = field(default=None, kw_only=True)
    """The application or document that it falls on; None for all."""
    after: float = field(default=0.0, kw_only=True, validator=figure())
    """Seconds of the service's time from when it is added until it begins."""
    seconds: float | None = field(default=None, kw_only=True, validator=optional(figure()))
    """Seconds that it lasts; None for ever."""
    rate: float = field(default=1.0, kw_only=True, validator=figure())
    """The share of requests that it falls on."""
    seed: int = field(default=7, kw_only=True, validator=whole())
    """What that chance hangs on."""

    def matches(self, method: str, path: str) -> bool:
        """Say whether a request is of its kind."""
        call = call_of(path).value
        is_meant = call in CALLS[:3] if self.call is None else call == self.call
        is_meant = is_meant and (self.named is None or self.named in map(unquote, path.split("/")))
        return is_meant and super().matches(method, path)


@frozen
class ArmedFault(PlannedFault):
    """A planned fault from the moment at which it was added."""

    clock: Callable[[], float] = field(kw_only=True, repr=False)
    """The service's time, in seconds."""
    added_at: float = field(kw_only=True)
    """When it was added, by that."""
    asked: Counter[str] = field(factory=Counter, kw_only=True, repr=False, eq=False)
    """How often each path was asked for since."""

    def falls_now(self, path: str) -> bool:
        """Say whether its time has come, and chance would have it; the answer counts."""
        # Rounded, as sums of fractions of a second come to a little less than the whole.
        passed = round(self.clock() - self.added_at - self.after, _DIGITS)
        if passed < 0 or (self.seconds is not None and passed >= self.seconds):
            return False
        if self.rate >= 1:
            return True
        self.asked[path] += 1
        # By path and turn, so that it is the same in whatever order requests arrive.
        return Random(f"{self.seed} {path} {self.asked[path]}").random() < self.rate  # noqa: S311 - seeded chance


def armed(fault: Fault, clock: Callable[[], float]) -> Fault:
    """Return a fault as it is played from now on.

    Args:
        fault: any; planned ones begin to count.
        clock: the service's time, in seconds.
    """
    if not isinstance(fault, PlannedFault):
        return fault
    return ArmedFault(**asdict(fault, recurse=False), clock=clock, added_at=clock())
