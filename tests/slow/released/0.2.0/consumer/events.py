# pyright: strict
"""A lender's code that hears events; type checkers read it, nobody runs it."""

from collections import Counter
from typing import assert_type

from income_client import (
    CallFinished,
    CheckpointCommitted,
    DeadLetter,
    DeadLettered,
    Event,
    FileFinished,
    IncomeClient,
    OnEvent,
    PageCovered,
    PollFailed,
    PollFinished,
    RecordDelivered,
    RequestAnswered,
    RequestRetried,
    RequestSent,
    TokenRenewed,
    Window,
    WindowSplit,
)

seen: Counter[str] = Counter()


def hears(event: Event) -> None:
    """Each event is told by its class."""
    hears_of_requests(event)
    hears_of_progress(event)
    seen[type(event).__name__] += 1


def hears_of_requests(event: Event) -> None:
    """What goes over the wire; the fields have types."""
    match event:
        case RequestSent(call=call, attempt=attempt):
            assert_type(call, str)
            assert_type(attempt, int)
        case RequestAnswered(status=status, seconds=seconds, error=error):
            assert_type(status, int | None)
            assert_type(seconds, float)
            assert_type(error, str | None)
        case RequestRetried(pause=pause):
            assert_type(pause, float)
        case CallFinished(attempts=attempts, waited=waited):
            assert_type(attempts, int)
            assert_type(waited, float)
        case FileFinished(document_id=document_id, size=size):
            assert_type(document_id, str)
            assert_type(size, int | None)
        case TokenRenewed(lifetime=lifetime, is_shared=is_shared):
            assert_type(lifetime, float)
            assert_type(is_shared, bool)
        case _:
            pass


def hears_of_progress(event: Event) -> None:
    """What comes of it, likewise."""
    match event:
        case WindowSplit(window=window) | PageCovered(window=window):
            assert_type(window, Window)
        case RecordDelivered(application_id=application_id):
            assert_type(application_id, str)
        case PollFinished(lag=lag) | PollFailed(lag=lag):
            assert_type(lag, float | None)
        case CheckpointCommitted(reached=reached):
            assert_type(reached, int)
        case DeadLettered(letter=letter):
            assert_type(letter, DeadLetter)
        case _:
            pass


def hooks() -> list[IncomeClient]:
    """A function will do, and so will a method of something else."""
    heard: list[Event] = []
    hook: OnEvent = heard.append
    return [IncomeClient.from_env(on_event=hears), IncomeClient.from_env(on_event=hook)]
