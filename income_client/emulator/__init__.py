"""The service, played locally over a real socket with invented data; imported name by name."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .api import Service, respond
    from .callbacks import CallbackDelivery, CallbackTarget
    from .control import EmulatedApplication, EmulatorState
    from .emulator import Emulator
    from .exchange import HttpReply, HttpRequest, RecordedRequest
    from .fault_player import Faults
    from .faults import Fault, FaultKind
    from .journal import Journal, JournalEntry, JournalPage, JournalWindow
    from .listing import ListReply, Refused, list_reply
    from .remote import RemoteEmulator
    from .service_rules import FutureBounds, Order, ServiceRules, SpanClamp
    from .world import World
else:
    from income_client._lazy import lazy_names

__all__ = [
    "CallbackDelivery",
    "CallbackTarget",
    "EmulatedApplication",
    "Emulator",
    "EmulatorState",
    "Fault",
    "FaultKind",
    "Faults",
    "FutureBounds",
    "HttpReply",
    "HttpRequest",
    "Journal",
    "JournalEntry",
    "JournalPage",
    "JournalWindow",
    "ListReply",
    "Order",
    "RecordedRequest",
    "Refused",
    "RemoteEmulator",
    "Service",
    "ServiceRules",
    "SpanClamp",
    "World",
    "list_reply",
    "respond",
]

NAMES: Final = {
    "api": "Service respond",
    "callbacks": "CallbackDelivery CallbackTarget",
    "control": "EmulatedApplication EmulatorState",
    "emulator": "Emulator",
    "exchange": "HttpReply HttpRequest RecordedRequest",
    "fault_player": "Faults",
    "faults": "Fault FaultKind",
    "journal": "Journal JournalEntry JournalPage JournalWindow",
    "listing": "ListReply Refused list_reply",
    "remote": "RemoteEmulator",
    "service_rules": "FutureBounds Order ServiceRules SpanClamp",
    "world": "World",
}
"""The modules, and what each gives."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, NAMES)
