"""The emulated service in a thread of its own, with its controls for any thread."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeAlias, TypeVar, overload

import msgspec
from attrs import evolve, fields_dict

from income_client import (
    Application,
    ApplicationDocuments,
    ApplicationRecord,
    BasicAuth,
    ConfigurationError,
    Document,
    DownloadPolicy,
    InvalidArgumentError,
    OAuth2ClientCredentials,
    to_json,
)
from income_client.emulator import (
    CallbackTarget,
    Emulator,
    RecordedRequest,
    ServiceRules,
)
from income_client.emulator.api import Call
from income_client.emulator.fault_player import FaultPlan
from income_client.emulator.service_rules import check_names, meant, names_of
from income_client.emulator.times import moment_of
from income_client.system.clock import Clock

from .clocks import JumpingClock, ServiceSideClock
from .factories import INVENTED_ADDRESS, documents_of
from .loops import LoopThread

P = ParamSpec("P")
T = TypeVar("T")
_Documents: TypeAlias = ApplicationDocuments | Iterable[Document] | None

_CALLS: Final = tuple(call.value for call in Call)
_SHOWN: Final = 40
_EXACT: Final = msgspec.json.Decoder(float_hook=Decimal)


class RequestCount(int):
    """A number of requests that also holds them, for the report of a failed comparison."""

    requests: "Requests"

    def __new__(cls, requests: "Requests") -> Self:
        """Count requests."""
        count = super().__new__(cls, len(requests))
        count.requests = requests
        return count


class Requests(Sequence[RecordedRequest]):
    """Recorded requests in order of arrival, at the time of this object's creation.

    Args:
        requests: what was asked.
    """

    def __init__(self, requests: Iterable[RecordedRequest] = ()) -> None:
        self._requests = tuple(requests)

    def __len__(self) -> int:
        return len(self._requests)

    @overload
    def __getitem__(self, place: int) -> RecordedRequest: ...

    @overload
    def __getitem__(self, place: slice) -> "Requests": ...

    def __getitem__(self, place: int | slice) -> "RecordedRequest | Requests":
        if isinstance(place, slice):
            return Requests(self._requests[place])
        return self._requests[place]

    def of(self, call: str, application_id: str | None = None) -> "Requests":
        """Return the requests of one kind of call.

        Args:
            call: list_applications, get_application, get_documents, token, file, index,
                control or unknown.
            application_id: only those about this application.

        Raises:
            ConfigurationError: there is no such call.
        """
        if call not in _CALLS:
            raise ConfigurationError(f"there is no call {call}{meant(call, _CALLS)}")
        return Requests(
            request
            for request in self._requests
            if request.name == call
            and (application_id is None or application_id in request.path.split("/"))
        )

    def count(self, call: str, application_id: str | None = None) -> RequestCount:
        """Return the number of requests of one kind of call.

        Args:
            call: its name, as in `of`.
            application_id: only those about this application.
        """
        return RequestCount(self.of(call, application_id))

    @property
    def failed(self) -> "Requests":
        """Requests that got no reply, or a reply that reports a failure."""
        return Requests(each for each in self if each.status == 0 or each.status >= 400)  # noqa: PLR2004 - where failures begin

    def __repr__(self) -> str:
        replies = (f"{each.name} {each.status or each.fault}" for each in self[:_SHOWN])
        return f"<{len(self)} requests: {', '.join(replies)}>"

    def table(self) -> str:
        """Return the latest requests as lines for people."""
        left_out = max(0, len(self) - _SHOWN)
        lines = [f"({left_out} earlier ones)"] if left_out else []
        lines += [_request_line(number, self[number]) for number in range(left_out, len(self))]
        return "\n".join(lines or ["nothing was asked"])


class ServiceFaults:
    """The faults of the service, in the order of their addition.

    Args:
        emulator: what plays it.
        thread: where that runs.
    """

    def __init__(self, emulator: Emulator, thread: LoopThread) -> None:
        self._emulator = emulator
        self._thread = thread

    def __len__(self) -> int:
        return self._thread.call(self._emulator.faults.__len__)

    def add(self, *plans: FaultPlan) -> None:
        """Add faults after the existing ones; their time begins now.

        Args:
            *plans: text as in `script`, a `Fault`, or several of them.

        Raises:
            ConfigurationError: a text cannot be read, or something else was given.
        """
        self._thread.call(partial(self._emulator.faults.add, *plans))

    def clear(self) -> None:
        """Forget all faults."""
        self._thread.call(self._emulator.faults.clear)


def _in_loop(
    method: Callable[Concatenate[Emulator, P], T],
) -> Callable[Concatenate["IncomeService", P], T]:
    """Return a method that calls the emulator's method, from any thread."""

    @wraps(method)
    def call(self: "IncomeService", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._call_in_loop(partial(method, self._emulator, *args, **kwargs))

    return call


def _awaited_in_loop(
    method: Callable[Concatenate[Emulator, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["IncomeService", P], Coroutine[Any, Any, T]]:
    """Return a method that awaits the emulator's method, while the caller's loop runs."""

    @wraps(method)
    async def call(self: "IncomeService", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._thread.wait_for(method(self._emulator, *args, **kwargs))

    return call


class IncomeService(AbstractContextManager["IncomeService"]):
    """An income-verification service on a free port of this machine; its data is all invented.

    Every method may be called from any thread, in an event loop or without one.

    It runs between entering and leaving it: ``with IncomeService() as service``.

    Args:
        applications: how many applications are invented.
        records: applications of the test's own, as in `add`.
        faults: as in ``faults.add``.
        clock: what its passing time goes by; a `JumpingClock` jumps over its pauses, too.
        thread: where it runs; a thread of its own unless given.
        **options: of `Emulator`.

    Attributes:
        faults: misbehaviour to be played.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    def __init__(
        self,
        applications: int | Sequence[int] = 100,
        *,
        records: Iterable[ApplicationRecord | Application] = (),
        faults: FaultPlan = (),
        clock: Clock | None = None,
        thread: LoopThread | None = None,
        **options: Any,
    ) -> None:
        names = (*names_of(IncomeService), *names_of(Emulator), *fields_dict(ServiceRules))
        check_names("IncomeService", options, names)
        if isinstance(clock, JumpingClock):
            clock = ServiceSideClock(clock)
        self._emulator = Emulator(applications, clock=clock, **options)
        self._added: dict[str, ApplicationRecord] = {}
        self._is_own_thread = thread is None
        self._thread = thread or LoopThread()
        self._open = ExitStack()
        self.faults: Final = ServiceFaults(self._emulator, self._thread)
        for record in records:
            self._add_record(record, None, now=False)
        self._emulator.faults.add(faults)

    def __repr__(self) -> str:
        return f"<IncomeService at {self.url or 'no address yet'}>"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self._is_own_thread:
                stack.enter_context(self._thread)
            self._thread.run(self._emulator.start())
            stack.callback(lambda: self._thread.run(self._emulator.close()))
            self._open = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._open.close()

    @property
    def url(self) -> str:
        """Address of the API and of the token endpoint."""
        return self._emulator.url

    @property
    def files_url(self) -> str:
        """Address of the host of document files."""
        return self._emulator.files_url

    @property
    def oauth2(self) -> OAuth2ClientCredentials:
        """Invented client id and secret for which the service issues access tokens."""
        return self._emulator.oauth2

    @property
    def basic(self) -> BasicAuth:
        """Invented user name and password that the service accepts."""
        return self._emulator.basic

    @property
    def download_policy(self) -> DownloadPolicy:
        """Policy that lets a client download files from this service, and from nowhere else."""
        return self._emulator.download_policy

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables from which ``IncomeClient.from_env`` makes a client of this service."""
        return {
            "INCOME_BASE_URL": self.url,
            "INCOME_CLIENT_ID": self.oauth2.client_id,
            "INCOME_CLIENT_SECRET": self.oauth2.client_secret.reveal(),
        }

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all applications, the invented ones first."""
        return self._call_in_loop(lambda: self._emulator.world.ids)

    @property
    def requests(self) -> Requests:
        """Requests received so far, in order of arrival."""
        return self._call_in_loop(lambda: Requests(self._emulator.requests))

    @property
    def token_requests(self) -> int:
        """Token requests answered so far, refused ones included."""
        return self._emulator.token_requests

    @property
    def max_in_flight(self) -> int:
        """Largest number of API requests at the same time."""
        return self._emulator.max_in_flight

    @property
    def rules(self) -> ServiceRules:
        """Behaviour of the service where the contract is silent; may be replaced at any time."""
        return self._emulator.rules

    @rules.setter
    def rules(self, rules: ServiceRules) -> None:
        self._call_in_loop(partial(setattr, self._emulator, "rules", rules))

    @property
    def callbacks(self) -> CallbackTarget | None:
        """Endpoint for callbacks, None if none are sent; may be replaced at any time."""
        return self._emulator.callbacks

    @callbacks.setter
    def callbacks(self, target: CallbackTarget | None) -> None:
        self._call_in_loop(partial(setattr, self._emulator, "callbacks", target))

    @property
    def now(self) -> datetime:
        """The service's present, without zone."""
        return moment_of(self._call_in_loop(lambda: self._emulator.now))

    advance: Final = _in_loop(Emulator.advance)

    def add(
        self,
        record: ApplicationRecord | Application,
        documents: ApplicationDocuments | Iterable[Document] | None = None,
        *,
        now: bool = False,
    ) -> ApplicationRecord:
        """Add an application, which is served as it is given.

        Addresses of documents that a factory made lead to files of this service.

        Args:
            record: an application, with its documents or without.
            documents: its documents, where the record holds none.
            now: whether it was updated just now, and not at its ``last_updated_at``.

        Returns:
            The record as it is served, addresses of files aside.

        Raises:
            ConfigurationError: its id or reference is taken, its ``last_updated_at`` lies in
                the future, its documents are another's, or JSON cannot carry it.
        """
        return self._call_in_loop(lambda: self._add_record(record, documents, now=now))

    def update(
        self,
        record: ApplicationRecord | Application,
        documents: ApplicationDocuments | Iterable[Document] | None = None,
    ) -> ApplicationRecord:
        """Replace an added application by another version, updated now as by `touch`.

        Args:
            record: the new version.
            documents: its documents, where the record holds none; those of the version
                before unless given.

        Returns:
            The record as it is served, addresses of files aside.

        Raises:
            ConfigurationError: no application of this id was added, or it cannot be served.
        """
        return self._call_in_loop(lambda: self._update_record(record, documents))

    def touch(self, application_id: str) -> None:
        """Update the application ``application_id`` now; of an invented one an amount changes, too.

        Service time moves on by a second where it was updated in this very second before,
        so that every update differs from the one before. Returns nothing,
        unlike `add` and `update`: read the application with a client.

        Raises:
            ConfigurationError: there is no such application.
        """
        self._call_in_loop(lambda: self._touch_application(application_id))

    def remove(self, application_id: str) -> None:
        """Remove the application ``application_id``: it is not listed, and reading it is 404.

        Raises:
            ConfigurationError: there is no such application.
        """
        self._call_in_loop(partial(self._remove_application, application_id))

    revoke_tokens: Final = _in_loop(Emulator.revoke_tokens)
    content_of: Final = _in_loop(Emulator.content_of)
    replace_file: Final = _in_loop(Emulator.replace_file)
    fire_callback: Final = _awaited_in_loop(Emulator.fire_callback)

    def _add_record(
        self, content: ApplicationRecord | Application, documents: _Documents, *, now: bool
    ) -> ApplicationRecord:
        record = _with_documents(content, documents)
        if now:
            record = _updated_at(record, self._emulator.now)
        self._emulator.world.add(*_reply_contents(record))
        self._added[record.application_id] = record
        return record

    def _update_record(
        self, content: ApplicationRecord | Application, documents: _Documents
    ) -> ApplicationRecord:
        record = _with_documents(content, documents)
        if record.documents is None and record.application_id in self._added:
            record = evolve(record, documents=self._added[record.application_id].documents)
        is_same_second = self._is_updated_now(record.application_id)
        self._emulator.world.replace(*_reply_contents(record))
        if is_same_second:
            self._touch_application(record.application_id)
        record = _updated_at(record, self._emulator.now)
        self._added[record.application_id] = record
        return record

    def _touch_application(self, application_id: str) -> None:
        if self._is_updated_now(application_id):
            self._emulator.advance(1)
        self._emulator.touch(application_id)

    def _remove_application(self, application_id: str) -> None:
        self._emulator.world.remove(application_id)
        self._added.pop(application_id, None)

    def _is_updated_now(self, application_id: str) -> bool:
        return self._emulator.world.updated_at(application_id) >= self._emulator.now

    def _call_in_loop(self, work: Callable[[], T]) -> T:
        return self._thread.call(work)


def _updated_at(record: ApplicationRecord, second: int) -> ApplicationRecord:
    moment = moment_of(second).replace(tzinfo=UTC)
    return evolve(record, application=evolve(record.application, last_updated_at=moment))


def _with_documents(
    record: ApplicationRecord | Application, documents: _Documents
) -> ApplicationRecord:
    if isinstance(record, Application):
        record = ApplicationRecord(application=record, documents=None)
    if not isinstance(record, ApplicationRecord):
        raise ConfigurationError("what is added is an Application or an ApplicationRecord")
    if documents is not None:
        if record.documents is not None:
            raise InvalidArgumentError(
                "documents are given twice: in the record and beside it", argument="documents"
            )
        if not isinstance(documents, ApplicationDocuments):
            documents = documents_of(record.application, documents)
        record = evolve(record, documents=documents)
    if record.documents and record.documents.application_id != record.application_id:
        raise ConfigurationError("the documents are those of another application")
    return record


def _reply_contents(record: ApplicationRecord) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the contents of the two replies with a record."""
    documents = record.documents or documents_of(record.application, ())
    content = _EXACT.decode(to_json(documents))
    for of_a_type in content["documents"].values():
        for document in of_a_type:
            if document["url"].startswith(INVENTED_ADDRESS):
                del document["url"]
    return _EXACT.decode(to_json(record.application)), content


def _request_line(number: int, request: RecordedRequest) -> str:
    is_signed = request.name == Call.FILE.value
    query = f"?{request.query}" if request.query and not is_signed else ""
    fault = f"  (fault: {request.fault})" if request.fault else ""
    status = request.status or "---"
    return f"{number + 1:4}  {status}  {request.method} {request.path}{query}{fault}"
