"""The test kit: what tests of code that uses this package need; imported name by name.

Knows where each name lives and nothing else, so that finding the pytest plug-in
costs a test run nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .factories import make_applicant, make_application, make_document, make_paystub
    from .fault_scripts import (
        cut_body,
        expired_token,
        flaky,
        outage,
        script,
        slow,
        throttled,
    )
    from .income_service import IncomeService
    from .jumping_clock import JumpingClock
    from .loop_runner import LoopRunner
    from .record_factory import make_record
    from .requests import Requests
    from .service_faults import ServiceFaults

__all__ = [
    "IncomeService",
    "JumpingClock",
    "LoopRunner",
    "Requests",
    "ServiceFaults",
    "cut_body",
    "expired_token",
    "flaky",
    "make_applicant",
    "make_application",
    "make_document",
    "make_paystub",
    "make_record",
    "outage",
    "script",
    "slow",
    "throttled",
]

_HOMES: Final = {
    "IncomeService": "income_service",
    "JumpingClock": "jumping_clock",
    "LoopRunner": "loop_runner",
    "Requests": "requests",
    "ServiceFaults": "service_faults",
    "make_record": "record_factory",
    **dict.fromkeys(
        ("make_applicant", "make_application", "make_document", "make_paystub"), "factories"
    ),
    **dict.fromkeys(
        ("cut_body", "expired_token", "flaky", "outage", "script", "slow", "throttled"),
        "fault_scripts",
    ),
}


def __getattr__(name: str) -> Any:
    """Import a name; it stands in the package from then on.

    Raises:
        AttributeError: there is no such name.
    """
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the names, and the modules imported so far."""
    return sorted({*globals(), *_HOMES})
