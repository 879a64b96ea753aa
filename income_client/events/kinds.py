"""Events: what a client reports about its work while it happens.

Events are values of ids, counts, durations and statuses. None holds a secret, an
address or anything about a borrower.
"""

from attrs import frozen

from income_client.records.dead_letters import DeadLetter
from income_client.records.window import Window


@frozen(kw_only=True)
class Event:
    """An event of a client; its class says what happened.

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
    - ``DeadLetterResolved``: a dead letter was read after all (``name``, ``letter``).
    - ``FileFinished``: a document's file is complete, or has failed (``application_id``,
      ``document_id``, ``size``, ``was_there``, ``attempts``, ``seconds``, ``error``).
    """


@frozen(kw_only=True)
class RequestSent(Event):
    """A request is being sent."""

    call: str
    """Name of the call, such as ``get_application``; ``token`` for the token endpoint."""
    attempt: int
    """Number of the attempt within the call, from 1."""


@frozen(kw_only=True)
class RequestAnswered(Event):
    """A request has ended, with a reply or with an error."""

    call: str
    """Name of the call."""
    attempt: int
    """Number of the attempt within the call, from 1."""
    status: int | None
    """HTTP status of the reply; None if no reply came."""
    seconds: float
    """Seconds from sending the request to the end of the reply's body."""
    error: str | None
    """Class of the request's error; None for a success."""
    request_id: str | None = None
    """The service's own id of the request, for its support desk; None if it gave none."""


@frozen(kw_only=True)
class RequestRetried(Event):
    """A request has failed, and will be repeated after a pause."""

    call: str
    """Name of the call."""
    attempt: int
    """Number of the attempt that failed, from 1."""
    status: int | None
    """HTTP status of the failed attempt's reply; None if no reply came."""
    error: str
    """Class of the attempt's error."""
    pause: float
    """Seconds until the next attempt."""


@frozen(kw_only=True)
class CallFinished(Event):
    """A call has returned its result or raised its error."""

    call: str
    """Name of the call."""
    attempts: int
    """Number of requests that the call sent."""
    seconds: float
    """Seconds from the beginning of the call to its end."""
    waited: float
    """Seconds of the call during which none of its requests was in flight: queue, token, pauses.
    """
    status: int | None
    """HTTP status of the reply to the last request; None if no reply came."""
    error: str | None
    """Class of the error that the call raised; None for a result."""
    request_id: str | None = None
    """The service's own id of the last request; None if it gave none."""


@frozen(kw_only=True)
class FileFinished(Event):
    """The download of a document's file has ended."""

    application_id: str | None
    """Id of the document's application; None for a document made by hand."""
    document_id: str
    """Id of the file's document."""
    size: int | None
    """Size of the whole file in bytes; None after an error."""
    was_there: bool
    """Whether the same file was already in its place, so that nothing was downloaded."""
    attempts: int
    """Number of requests for the file."""
    seconds: float
    """Seconds from the download's turn in the queue to its end."""
    error: str | None
    """Class of the download's error; None for a complete file."""


@frozen(kw_only=True)
class TokenRenewed(Event):
    """The client has a new access token."""

    lifetime: float
    """Seconds from now for which the token is valid."""
    is_shared: bool
    """Whether the token came from the token store; otherwise the client requested it."""


@frozen(kw_only=True)
class WindowSplit(Event):
    """A page came back full, so its window is being split."""

    window: Window
    """Window of the full page."""
    rows: int
    """Number of rows of the page."""


@frozen(kw_only=True)
class PageCovered(Event):
    """The consumer of a walk has taken all applications of a page."""

    window: Window
    """Window of the page."""
    rows: int
    """Number of the page's applications that no earlier page had."""
    covered_fraction: float
    """Share of the walk's seconds that is covered, from 0 to 1."""
    requests: int
    """Number of list calls of the walk so far."""


@frozen(kw_only=True)
class RecordDelivered(Event):
    """A record, or an application's documents, is passed to the consumer.

    Redeliveries count too.
    """

    application_id: str
    """Id of the record's application."""


@frozen(kw_only=True)
class PollFinished(Event):
    """A poll has succeeded."""

    name: str
    """Name of the poller."""
    polls: int
    """Number of polls that have succeeded so far."""
    lag: float | None
    """Seconds from the checkpoint to the present service time; None while unknown."""
    late: int = 0
    """Greatest number of seconds by which an update of the last day was listed late."""


@frozen(kw_only=True)
class PollFailed(Event):
    """A poll has failed, or its records could not be stored; the next poll is already planned."""

    name: str
    """Name of the poller."""
    failures: int
    """Number of failures since the last successful poll."""
    lag: float | None
    """Seconds from the checkpoint to the present service time; None while unknown."""
    status: int | None
    """HTTP status of the reply that caused the failure; None if no reply came."""
    error: str
    """Class of the poll's error."""
    is_last: bool
    """Whether the error ends the poller."""


@frozen(kw_only=True)
class CheckpointCreated(Event):
    """The store had no checkpoint for a poller, so polling begins anew."""

    name: str
    """Name of the poller."""
    reached: int
    """Service time of the new checkpoint, in seconds since 1970."""


@frozen(kw_only=True)
class CheckpointCommitted(Event):
    """A poller's checkpoint has been saved to the store."""

    name: str
    """Name of the poller."""
    reached: int
    """Service time that the checkpoint has reached, in seconds since 1970."""


@frozen(kw_only=True)
class DeadLettered(Event):
    """An application or window could not be read, and is kept in the store to be tried again."""

    name: str
    """Name of the poller."""
    letter: DeadLetter
    """The dead letter, with its window and the reason."""
    is_new: bool = True
    """Whether this is a new dead letter; otherwise another attempt to read it has failed."""


@frozen(kw_only=True)
class DeadLetterResolved(Event):
    """An application or window that was a dead letter was read, and has left the store."""

    name: str
    """Name of the poller."""
    letter: DeadLetter
    """The dead letter as it was stored last."""
