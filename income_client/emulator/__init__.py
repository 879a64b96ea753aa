"""The service, played locally over a real socket with invented data."""

from .api import Service, respond
from .callbacks import CallbackDelivery, CallbackTarget
from .emulator import Emulator
from .exchange import HttpReply, HttpRequest, RecordedRequest
from .faults import Fault, FaultKind, Faults
from .listing import ListReply, Refused, list_reply
from .rules import FutureBounds, Order, ServiceRules, SpanClamp
from .world import World

__all__ = [
    "CallbackDelivery",
    "CallbackTarget",
    "Emulator",
    "Fault",
    "FaultKind",
    "Faults",
    "FutureBounds",
    "HttpReply",
    "HttpRequest",
    "ListReply",
    "Order",
    "RecordedRequest",
    "Refused",
    "Service",
    "ServiceRules",
    "SpanClamp",
    "World",
    "list_reply",
    "respond",
]
