"""Every error that the package raises, and what it offers a caller.

IncomeClientError
├── ConfigurationError              invalid settings or wrong use; nothing was sent
│   └── InvalidArgumentError        an invalid argument; a ValueError too
├── ClientClosedError               used after closing, or from another event loop
├── TransportError                  no usable reply came
│   ├── ConnectionFailedError       refused, reset, cut short, unreadable
│   └── DeadlineExceededError       the call's time was up; a TimeoutError too
├── ResponseError                   the service replied, but not with the expected content
│   ├── AuthenticationError         401
│   ├── PermissionDeniedError       403
│   ├── NotFoundError               404
│   ├── RateLimitedError            429
│   ├── InvalidRequestError         any other 4xx
│   ├── ServerError                 5xx
│   └── UnexpectedResponseError     any other
├── TokenError                      the token endpoint failed
├── DecodeError                     the reply's content is not what the contract says
├── SaturatedWindowError            one second holds more rows than can be listed
├── DownloadError                   a document's file arrived incomplete, or cannot be stored
│   └── UnsafeLinkError             its address is not allowed
├── CheckpointError                 a checkpoint that cannot be used
│   └── CheckpointConflictError     another poller has taken over
└── CallbackRejectedError           a callback is not authentic, or cannot be accepted now

No message, repr, log, pickle, cause, context or variable in a frame of ours shows a secret, token,
signed address or borrower's data: values mask themselves, and `system.frames` removes the frames of
functions that handle them as plain values. The one exception is `body`, which a client made with
``keep_error_bodies=True`` fills in.
"""

import enum
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from attrs import frozen

from ._lazy import answers_other_names

if TYPE_CHECKING:
    from .records.applications import ApplicationSummary
    from .records.window import Window
else:
    # Stand-ins for those who resolve type hints at run time: records import this module.
    ApplicationSummary = Window = Any

E = TypeVar("E", bound="IncomeClientError")


@answers_other_names
class IncomeClientError(Exception):
    """The root of the tree.

    Attributes:
        message: what went wrong, for people: the call, its subject and the detail.
        detail: what went wrong, without that call and that subject.
        call: what was called, such as ``get_application``, ``token`` or ``download``; None where
            it is about no call.
        subject: id of the application or of the document that it is about; None without one.
        retryable: whether the same call may succeed if it is made again later.
        status: HTTP status of the reply, None where none came.
        retry_after: seconds before which another try is no use: the service asked for that
            pause, or the client makes it; None where there is none. Whether a try after that may
            succeed is ``retryable``.
        request_id: the service's own id of the request, for its support desk.
        attempts: requests sent for this call, token requests not counted.
        body: the first bytes of the reply, 4096 at most, for a client made with
            ``keep_error_bodies=True``; else None. It may hold a borrower's data, so
            it is never part of the text.
    """

    default_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        call: str | None = None,
        subject: str | None = None,
        retryable: bool | None = None,
        status: int | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        attempts: int = 0,
        body: bytes | None = None,
    ) -> None:
        self.message: str
        self.detail: str = message
        self._name_call(call, subject)
        self.retryable: bool = self.default_retryable if retryable is None else retryable
        self.status = status
        self.retry_after = retry_after
        self.request_id = request_id
        self.attempts = attempts
        self.body = body

    def _name_call(self, call: str | None, subject: str | None) -> None:
        self.call: str | None = call
        self.subject: str | None = subject
        label = self._label()
        # An id of the service may hold what acts on a terminal, or begins a line of a log.
        text = self.detail if label is None else f"{label}: {self.detail}"
        self.message = "".join(char if char.isprintable() else "?" for char in text)
        Exception.__init__(self, self.message)

    def _label(self) -> str | None:
        if self.call is None or self.subject is None:
            return self.call
        return f"{self.call}({self.subject})"

    def __str__(self) -> str:
        facts = []
        if self.attempts > 1:
            facts.append(f"{self.attempts} attempts")
        if self.retry_after is not None:
            facts.append(f"retry after {self.retry_after:g} s")
        if self.request_id is not None:
            facts.append(f"request id {self.request_id}")
        return f"{self.message} ({', '.join(facts)})" if facts else self.message

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _rebuild_error, (type(self), self.message, self.__dict__.copy())


def name_call(error: IncomeClientError, call: str, subject: str | None) -> None:
    """Add the failed call, and its application or document, to an error."""
    error._name_call(call, subject)  # noqa: SLF001 - private to this module


def copy_without_traceback(error: E) -> E:
    """Return an equal error without a traceback, to raise the same fault once more."""
    return _rebuild_error(type(error), error.message, error.__dict__.copy())


def _rebuild_error(cls: type[E], message: str, state: dict[str, Any]) -> E:
    error = cls.__new__(cls, message)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


class ConfigurationError(IncomeClientError):
    """A setting or an argument is invalid, or the package is used wrongly; nothing was sent.

    Attributes:
        argument: name of the argument or of the setting; None where it is about none, or several.
        detail: what is wrong; without the name of a setting of the client, which has another one
            in the environment and on the command line.
    """

    def __init__(
        self,
        message: str,
        *,
        argument: str | None = None,
        detail: str | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(message, **facts)
        self.argument = argument
        if detail is not None:
            self.detail = detail


class InvalidArgumentError(ConfigurationError, ValueError):
    """An argument of a call or of a constructor is invalid; ``argument`` is its name."""


class ClientClosedError(IncomeClientError):
    """The client was closed, or belongs to another event loop or to the parent of this process."""


class TransportError(IncomeClientError):
    """The call got no usable reply.

    Attributes:
        is_foreign: whether what came is not HTTP, so that something else answers there.
    """

    default_retryable = True

    def __init__(self, message: str, *, is_foreign: bool = False, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.is_foreign = is_foreign


class ConnectionFailedError(TransportError):
    """The connection was refused, reset or cut, or what came over it was not HTTP."""


class DeadlineExceededError(TransportError, TimeoutError):
    """The call's deadline passed: token, queueing, attempts, pauses and body together."""


class ResponseError(IncomeClientError):
    """The service replied with another status than 200."""


class AuthenticationError(ResponseError):
    """401: the credentials, or the token issued for them, were not accepted.

    After the token endpoint refused the credentials, it is not asked again for 10 seconds,
    since accounts get locked for it: calls fail at once, and ``retry_after`` says for how long.
    It is not ``retryable``, since the same credentials are refused again; those of a file or a
    function are read anew after that pause. A poller whose calls have succeeded before retries it
    for five minutes.
    """


class PermissionDeniedError(ResponseError):
    """403: the credentials are valid, but do not allow this request."""


class NotFoundError(ResponseError):
    """404: the service does not know the application."""


class InvalidRequestError(ResponseError):
    """Another 4xx: the service does not accept the request as it is."""


class RateLimitedError(ResponseError):
    """429: too many requests; ``retry_after`` says for how long."""

    default_retryable = True


class ServerError(ResponseError):
    """5xx: the service failed."""

    default_retryable = True


class UnexpectedResponseError(ResponseError):
    """Any other reply: a redirect, an empty success, a login page of some proxy."""


class TokenError(IncomeClientError):
    """The token endpoint failed, or its reply holds none (contract section 5.1).

    Also if the function of ``auth`` raised something or did not return in time: ``call`` is
    ``credentials`` then, and it can be retried.
    """


@frozen
class PayloadFault:
    """A fault of a reply's content."""

    path: str
    """Place of the fault as a JSON path, such as ``$.applicants.applicant1.ssn``."""
    reason: str
    """Expected and actual kind of the value; never the value itself."""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class DecodeError(IncomeClientError):
    """The reply's content is not what contract section 2 says.

    Attributes:
        faults: every fault of the payload; of a malformed row, those of the row.
        subject: id of the application; of a malformed row, None if its id cannot be read.
        is_row: whether it is about one malformed row of a list, behind which the walk continues
            when it is iterated again.
    """

    _SHOWN = 5

    def __init__(
        self, faults: tuple[PayloadFault, ...], *, is_row: bool = False, **facts: Any
    ) -> None:
        fault_texts = "; ".join(str(fault) for fault in faults[: self._SHOWN])
        more = len(faults) - self._SHOWN
        self.is_row: bool = is_row
        super().__init__(fault_texts + (f"; and {more} more" if more > 0 else ""), **facts)
        self.faults = faults

    def _label(self) -> str | None:
        if not self.is_row or self.subject is None:
            return super()._label()
        row = f"application {self.subject}"
        return row if self.call is None else f"{self.call}: {row}"


class SaturatedWindowError(IncomeClientError):
    """A second holds more rows than any list call can return.

    Raised at the end of a walk, after everything else was yielded.

    Attributes:
        windows: the seconds whose rows may be incomplete.
        applications: the rows that the service listed for these seconds; rows of
            neighbouring seconds among them may have been yielded as well.
    """

    def __init__(
        self,
        windows: "tuple[Window, ...]",
        applications: "tuple[ApplicationSummary, ...]",
    ) -> None:
        first_windows = ", ".join(str(window) for window in windows[:3])
        super().__init__(
            f"{len(windows)} saturated window(s), the first of them {first_windows}: "
            "more rows than one page holds; the rows given are in .applications",
        )
        self.windows = windows
        self.applications = applications


class DownloadError(IncomeClientError):
    """A document's file arrived incomplete, or cannot be stored at its destination.

    Attributes:
        document_id: whose file it is, as ``subject``.
        code: what the storage calls the failure, such as ``SignatureDoesNotMatch``.
        disk_failed: whether this machine's disk is full, over a quota, read-only or failing, so
            that other files fail as well.
        in_place: whether the file is whole at its place all the same: only the last step after
            that failed, which the message names.
    """

    def __init__(
        self,
        message: str,
        *,
        document_id: str | None = None,
        code: str | None = None,
        disk_failed: bool = False,
        in_place: bool = False,
        **facts: Any,
    ) -> None:
        super().__init__(message, **{"subject": document_id, **facts})
        self.code = code
        self.disk_failed = disk_failed
        self.in_place = in_place

    @property
    def document_id(self) -> str | None:
        """Id of the document, as ``subject``."""
        return self.subject


class LinkRefusal(enum.Enum):
    """Reason for which nothing is sent to a download address."""

    ADDRESS = "address"
    """The URL is missing or malformed."""
    PLAIN_HTTP = "plain_http"
    """The URL is not https, and the policy requires https."""
    HOST = "host"
    """The URL's host is not in ``allowed_hosts``."""
    PRIVATE_NETWORK = "private_network"
    """The URL's host is in a private network, and the policy allows none."""
    THIS_MACHINE = "this_machine"
    """The URL's host is this machine, which ``allowed_hosts`` does not name."""
    SPECIAL_NETWORK = "special_network"
    """The URL's host is in a network that no policy allows."""


class UnsafeLinkError(DownloadError):
    """A download address is not allowed by `DownloadPolicy`; nothing was sent there.

    Attributes:
        reason: the rule that forbids it.
    """

    def __init__(self, message: str, *, reason: LinkRefusal, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.reason = reason


class CheckpointError(IncomeClientError):
    """A checkpoint or its store is corrupt, foreign or newer, or the store cannot be used."""


class CheckpointConflictError(CheckpointError):
    """Another poller has taken over this name; this one's change was not stored."""


class CallbackRejectedError(IncomeClientError):
    """A callback is rejected: it is not authenticated, or cannot be accepted now.

    Attributes:
        status: HTTP status of the answer.
        reason: why, for the operator's eyes; the sender gets the status only.
        retryable: whether the service may send it again, as it does upon 503.
    """

    def __init__(self, status: int, reason: str, *, retry_after: float | None = None) -> None:
        is_temporary = status == HTTPStatus.SERVICE_UNAVAILABLE
        super().__init__(reason, retryable=is_temporary, status=status, retry_after=retry_after)
        self.reason = reason
