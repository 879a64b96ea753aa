"""Events that a client reports about its work, their listeners, and the watch of a call."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .instrumentation import OnEvent
    from .kinds import (
        CallFinished,
        CheckpointCommitted,
        CheckpointCreated,
        DeadLettered,
        DeadLetterResolved,
        Event,
        FileFinished,
        PageCovered,
        PollFailed,
        PollFinished,
        RecordDelivered,
        RequestAnswered,
        RequestRetried,
        RequestSent,
        TokenRenewed,
        WindowSplit,
    )
else:
    from income_client._lazy import lazy_names

__all__ = [
    "CallFinished",
    "CheckpointCommitted",
    "CheckpointCreated",
    "DeadLetterResolved",
    "DeadLettered",
    "Event",
    "FileFinished",
    "OnEvent",
    "PageCovered",
    "PollFailed",
    "PollFinished",
    "RecordDelivered",
    "RequestAnswered",
    "RequestRetried",
    "RequestSent",
    "TokenRenewed",
    "WindowSplit",
]

NAMES: Final = {
    "kinds": """
        CallFinished CheckpointCommitted CheckpointCreated DeadLetterResolved DeadLettered
        Event FileFinished PageCovered PollFailed PollFinished RecordDelivered RequestAnswered
        RequestRetried RequestSent TokenRenewed WindowSplit
    """,
    "instrumentation": "OnEvent",
}
"""Public names by the module that defines them."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, NAMES)
