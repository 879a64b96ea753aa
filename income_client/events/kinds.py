"""Events: what a client reports about its work while it happens.

Events are values of ids, counts, durations and statuses. None holds a secret, an
address or anything about a borrower.
"""

from attrs import frozen

from income_client.records.dead_letters import DeadLetter
from income_client.records.window import Window


@frozen(kw_only=True)
class Event:
    """Something that happened in a client; the class says what.

    - ``RequestSent``: a request is sent (``call``, ``attempt``).
    - ``RequestAnswered``: it has ended, with a reply or without (``call``, ``attempt``,
      ``status``, ``seconds``, ``error``, ``request_id``).
    - ``RequestRetried``: it has failed and is repeated after a pause (``call``, ``attempt``,
      ``status``, ``error``, ``pause``).
    - ``CallFinished``: a call has its result or its error (``call``, ``attempts``, ``seconds``,
      ``waited``, ``status``, ``error``, ``request_id``).
    - ``TokenRenewed``: there is a new access token (``lifetime``, ``is_shared``).
    - ``WindowSplit``: a page of a walk came back full (``window``, ``rows``).
    - ``PageCovered``: the consumer of a walk has finished a page (``window``, ``rows``,
      ``covered_fraction``, ``requests``).
    - ``RecordDelivered``: a consumer gets a record or documents (``application_id``).
    - ``PollFinished``: a poll has succeeded (``name``, ``polls``, ``lag``).
    - ``PollFailed``: a poll has failed (``name``, ``failures``, ``lag``, ``status``, ``error``,
      ``is_last``).
    - ``CheckpointCreated``: a poller's checkpoint is new in its store (``name``, ``reached``).
    - ``CheckpointCommitted``: the store has a poller's checkpoint (``name``, ``reached``).
    - ``DeadLettered``: something could not be read (``name``, ``letter``, ``is_new``).
    - ``FileFinished``: a document's file is complete, or has failed (``application_id``,
      ``document_id``, ``size``, ``was_there``, ``attempts``, ``seconds``, ``error``).
    """


@frozen(kw_only=True)
class RequestSent(Event):
    """A request goes out."""

    call: str
    """What it is for, such as ``get_application``; ``token`` for the token endpoint."""
    attempt: int
    """Which one of its call, from 1."""


@frozen(kw_only=True)
class RequestAnswered(Event):
    """A request has ended, with a reply or without."""

    call: str
    """What it was for."""
    attempt: int
    """Which one of its call, from 1."""
    status: int | None
    """Of the reply; None where none came."""
    seconds: float
    """From its sending to the end of the reply's body."""
    error: str | None
    """Class of what was wrong with it; None if nothing was."""
    request_id: str | None = None
    """The service's own id of it, for its support desk; None where it gave none."""


@frozen(kw_only=True)
class RequestRetried(Event):
    """A request has failed, and is made again after a pause."""

    call: str
    """What it is for."""
    attempt: int
    """The one that failed, from 1."""
    status: int | None
    """Of its reply; None where none came."""
    error: str
    """Class of the failure."""
    pause: float
    """Seconds until the next."""


@frozen(kw_only=True)
class CallFinished(Event):
    """A call has its result or its error."""

    call: str
    """Its name."""
    attempts: int
    """Requests that it took."""
    seconds: float
    """From its beginning to its end."""
    waited: float
    """Seconds of these in which no request of it was under way: queue, token, pauses."""
    status: int | None
    """Of the reply to its last request; None where none came."""
    error: str | None
    """Class of the error that it raised; None for a result."""
    request_id: str | None = None
    """The service's own id of its last request; None where it gave none."""


@frozen(kw_only=True)
class FileFinished(Event):
    """The download of a document's file has ended."""

    application_id: str | None
    """Of the application that it belongs to, where that is known."""
    document_id: str
    """Of its document."""
    size: int | None
    """Bytes of the whole file; None where there is none."""
    was_there: bool
    """Whether the same file was in its place already."""
    attempts: int
    """Requests for it."""
    seconds: float
    """From the beginning, once it was its turn, to the end."""
    error: str | None
    """Class of what was wrong; None if it is there."""


@frozen(kw_only=True)
class TokenRenewed(Event):
    """There is a new access token."""

    lifetime: float
    """Seconds for which it is valid from now."""
    is_shared: bool
    """Whether it came from the token store; else it was requested."""


@frozen(kw_only=True)
class WindowSplit(Event):
    """A page came back full, and its window is divided."""

    window: Window
    """The requested one."""
    rows: int
    """Rows of the page."""


@frozen(kw_only=True)
class PageCovered(Event):
    """The consumer of a walk is done with a page."""

    window: Window
    """Its window."""
    rows: int
    """Applications of it that no page had given before."""
    covered_fraction: float
    """Share of the walk's seconds that is covered, 0 to 1."""
    requests: int
    """List calls of the walk so far."""


@frozen(kw_only=True)
class RecordDelivered(Event):
    """A record, or the documents of an application, is handed to its consumer, perhaps again."""

    application_id: str
    """Of its application."""


@frozen(kw_only=True)
class PollFinished(Event):
    """A poll has succeeded."""

    name: str
    """Of the poller."""
    polls: int
    """How many have succeeded."""
    lag: float | None
    """Seconds from the checkpoint to the service's present; None while it is not known."""


@frozen(kw_only=True)
class PollFailed(Event):
    """A poll has failed, or its records could not be stored; the next one is planned already."""

    name: str
    """Of the poller."""
    failures: int
    """Failures since the last poll that succeeded."""
    lag: float | None
    """Seconds from the checkpoint to the service's present; None while it is not known."""
    status: int | None
    """Of the reply that was the reason; None where none came."""
    error: str
    """Class of the error."""
    is_last: bool
    """Whether the error ends the poller."""


@frozen(kw_only=True)
class CheckpointCreated(Event):
    """The store had no checkpoint of a poller's name: polling begins, or begins again."""

    name: str
    """Of the poller."""
    reached: int
    """Service time at which it begins, in seconds since 1970."""


@frozen(kw_only=True)
class CheckpointCommitted(Event):
    """The store has a poller's checkpoint."""

    name: str
    """Of the poller."""
    reached: int
    """Service time that it has come to, in seconds since 1970."""


@frozen(kw_only=True)
class DeadLettered(Event):
    """Something could not be read, and is kept by the store to be tried again."""

    name: str
    """Of the poller."""
    letter: DeadLetter
    """What, and why."""
    is_new: bool = True
    """Whether it has become a dead letter now; else it was one already, and was tried again."""
