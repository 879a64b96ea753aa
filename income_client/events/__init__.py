"""What a client reports while it works: its events, their listeners, the watch of a call."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .kinds import (
        CallFinished,
        CheckpointCommitted,
        CheckpointCreated,
        DeadLettered,
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
    "DeadLettered",
    "Event",
    "FileFinished",
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
        CallFinished CheckpointCommitted CheckpointCreated DeadLettered Event FileFinished
        PageCovered PollFailed PollFinished RecordDelivered RequestAnswered RequestRetried
        RequestSent TokenRenewed WindowSplit
    """,
}
"""The modules, and the names that each gives."""

if not TYPE_CHECKING:
    # Making the classes of events takes a while, and most programs listen to none.
    __getattr__, __dir__ = lazy_names(__name__, NAMES)
