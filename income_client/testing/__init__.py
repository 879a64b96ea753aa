"""The test kit: what tests of code that uses this package need; imported name by name.

Knows where each name lives and nothing else, so that finding the pytest plug-in
costs a test run nothing.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from income_client.emulator import Fault
    from income_client.emulator.faults import script

    from .clocks import JumpingClock
    from .factories import (
        make_applicant,
        make_application,
        make_document,
        make_paystub,
        make_record,
    )
    from .loops import LoopRunner
    from .service import IncomeService, Requests, ServiceFaults
    from .store_contract import check_checkpoint_store
else:
    from income_client._lazy import lazy_names

__all__ = [
    "Fault",
    "IncomeService",
    "JumpingClock",
    "LoopRunner",
    "Requests",
    "ServiceFaults",
    "check_checkpoint_store",
    "make_applicant",
    "make_application",
    "make_document",
    "make_paystub",
    "make_record",
    "script",
]

NAMES: Final = {
    ".emulator": "Fault",
    ".emulator.faults": "script",
    "clocks": "JumpingClock",
    "factories": "make_applicant make_application make_document make_paystub make_record",
    "loops": "LoopRunner",
    "service": "IncomeService Requests ServiceFaults",
    "store_contract": "check_checkpoint_store",
}
"""The modules, and what each gives."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, NAMES)
