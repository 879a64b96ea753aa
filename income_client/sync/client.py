"""The client for code that is not asynchronous: the same methods, which wait for their results.

Most of them are made from those of `IncomeClient`: ``name: Final = _blocking(...)`` takes over
arguments, types and docstring, for type checkers and editors as well. Written out are only those
with overloads, which mypy cannot take over.

Nothing is read ahead here: the asynchronous iterators do that, and a page of a walk comes from the
loop's thread as one. So both clients count the same items as delivered to the consumer.
"""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from functools import partial, update_wrapper
from inspect import signature
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    overload,
)

from attrs import define, field

from income_client._lazy import answers_other_names, renamed_argument
from income_client.client import FILE_NAMES, IncomeClient
from income_client.configuration import SyncClientOptions, check_options, from_file, from_variables
from income_client.errors import InvalidArgumentError
from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.documents import ApplicationDocuments, ApplicationRecord
from income_client.settings import Auth, AuthFunction, RetryPolicy, Timeouts
from income_client.system.frames import strip_frames

from .portal import CallerIterator, Portal

if TYPE_CHECKING:
    from income_client.downloads.many import Documents, DownloadFailure, Folder, OnProgress
    from income_client.polling.batches import Batch
    from income_client.polling.poller import Poller
    from income_client.polling.status import PollerStatus
    from income_client.records.files import DownloadedFile
    from income_client.records.window import Window
    from income_client.walk.fetching import Applications, FetchFailure, OnError
    from income_client.walk.paginator import ApplicationPaginator, WalkProgress
else:
    # Stand-ins for those who resolve type hints at run time: the modules take a while to load.
    Application = ApplicationKey = ApplicationPaginator = Applications = Audit = Batch = Any
    Call = CheckpointStore = Destination = Documents = DownloadFailure = DownloadedFile = Any
    Downloads = FetchFailure = Fetcher = Folder = Held = OnError = OnProgress = OnSaturated = Any
    OneDocument = Poller = PollerStatus = QueryValue = WalkProgress = When = Window = Any
    datetime = DeprecatedPollOptions = Any

A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
Y = TypeVar("Y")

WORDS: Final = (
    ("An asynchronous iterator", "An iterator"),
    ("async with", "with"),
    ("aclose()", "close()"),
)
"""Phrases in docstrings of the asynchronous client, and their replacements for this client."""
_MANY: Final = 1000
"""Items that cross to the loop at a time where all are read before anything is returned: a crossing
costs tens of microseconds."""
_OF_THE_LOOP: Final = (str, bytes, list, tuple, set, frozenset, Mapping)
"""Types of iterables that the loop reads, or refuses, by itself, since they should not block.

An asynchronous iterable is not among them: one that is an iterable too, such as a QuerySet of
Django's, is bound to the caller's thread, transaction and connection.
"""


def _documented(original: Callable[..., Any]) -> Callable[[F], F]:
    """Set a function's docstring to that of its asynchronous counterpart."""

    def document(function: F) -> F:
        text = original.__doc__ or ""
        for word, own in WORDS:
            text = text.replace(word, own)
        function.__doc__ = text
        return function

    return document


def _method_like(original: Callable[..., Any], returns: str | None = None) -> Callable[[F], F]:
    """Set a function's name, arguments and docstring to those of an asynchronous method."""

    def name(function: F) -> F:
        new_signature = signature(original)
        method: Any = update_wrapper(function, original)
        if returns is not None:
            method.__annotations__ = {**original.__annotations__, "return": returns}
            new_signature = new_signature.replace(return_annotation=returns)
        method.__signature__ = new_signature
        method.__module__ = __name__
        method.__qualname__ = f"SyncIncomeClient.{original.__name__}"
        del method.__wrapped__
        return _documented(original)(function)

    return name


def _blocking(
    original: Callable[Concatenate[IncomeClient, P], Coroutine[Any, Any, R]],
    over: str | None = None,
) -> Callable[Concatenate[SyncIncomeClient, P], R]:
    """Make a method that waits for the result of an asynchronous one.

    ``over`` is the name of its first argument, if that is iterated over in the caller's thread.
    """

    @_method_like(original)
    def call(self: SyncIncomeClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if over is None:
            return self._portal.run(partial(original, self._client, *args, **kwargs))
        begin: Callable[..., Coroutine[Any, Any, R]] = original
        first = args[0] if args else kwargs.pop(over, None)
        items, iterator = _iterated(self._portal, first, _MANY)
        return self._portal.run(partial(begin, self._client, items, *args[1:], **kwargs), iterator)

    return call


def _check_stores(arguments: Mapping[str, object]) -> None:
    """Refuse a store whose connections belong to an event loop of the caller."""
    for name, value in arguments.items():
        if getattr(value, "is_of_event_loop", False) is True:
            message = (
                f"{type(value).__name__} uses connections of an event loop of yours, and "
                "SyncIncomeClient runs its own: take a SQLiteCheckpointStore, "
                "PostgresCheckpointStore.from_url(...), or IncomeClient"
            )
            raise InvalidArgumentError(message, argument=name)


def _wrapping(
    original: Callable[Concatenate[IncomeClient, P], A], around: Callable[[Portal, A], R]
) -> Callable[Concatenate[SyncIncomeClient, P], R]:
    """Make a method that wraps the asynchronous object in its synchronous counterpart."""
    original_signature = signature(original)

    @_method_like(original, around.__name__)
    def call(self: SyncIncomeClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        made = original(self._client, *args, **kwargs)
        _check_stores(original_signature.bind(self, *args, **kwargs).arguments)
        return around(self._portal, made)

    return call


class SyncIterator(Generic[Y]):
    """An iterator over records or files that the client reads, for one consumer.

    The client reads ahead as the asynchronous one does, also while the consumer is busy. Leaving a
    loop drops the iterator, which ends the requests in flight; ``close`` waits for their end.

    Made by the methods of `SyncIncomeClient`.

    Args:
        portal: the event loop of the client.
        items: the asynchronous iterator, which runs there.
        iterator: the caller's iterable behind the items, which the consumer's thread reads.
        fetched: items of a call that was interrupted before it returned them.
    """

    def __init__(
        self,
        portal: Portal,
        items: AsyncIterator[Y],
        iterator: CallerIterator[Any] | None = None,
        fetched: deque[Y] | None = None,
    ) -> None:
        self._portal = portal
        self._items = items
        self._iterator = iterator
        self._fetched: deque[Y] = deque() if fetched is None else fetched

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Y:
        """Return the next item.

        Raises:
            IncomeClientError: as the asynchronous iterator.
        """
        if not self._fetched:
            has_more = self._portal.run(self._take, self._iterator)
            if not has_more:
                raise StopIteration
        # A signal is handled after a call, such as that of popleft: the item would be lost.
        item = self._fetched[0]
        del self._fetched[0]
        return item

    def close(self) -> None:
        """Cancel the tasks in flight, and wait for their end; a second call does nothing."""
        close = getattr(self._items, "aclose", None)
        if close is not None and not self._portal.is_closed:
            self._portal.run(close)

    async def _take(self) -> bool:
        try:
            self._fetched.append(await anext(self._items))
        except StopAsyncIteration:
            return False
        return True


def _iterated(portal: Portal, items: Any, most: int = 1) -> tuple[Any, CallerIterator[Any] | None]:
    """Return the object that the loop iterates over, and the caller's iterator in it."""
    if isinstance(items, SyncIterator) and items._portal is portal and not items._fetched:
        return items._items, items._iterator  # stays in the loop
    if isinstance(items, _OF_THE_LOOP) or not isinstance(items, Iterable):
        return items, None
    iterator: CallerIterator[Any] = CallerIterator(items, most)
    return iterator, iterator


class SyncApplicationPaginator(SyncIterator[ApplicationSummary]):
    """Every application updated in a span, each once: an `ApplicationPaginator` without await.

    One that is updated meanwhile may come twice. What `checkpoint` covers is the same: a row counts
    once the consumer came back for the next.

    Made by ``SyncIncomeClient.list_applications``, which says what the arguments are.
    """

    _items: ApplicationPaginator

    def __init__(self, portal: Portal, items: AsyncIterator[ApplicationSummary]) -> None:
        super().__init__(portal, items)
        self._fetched_pages: deque[ApplicationPage] = deque()

    def __next__(self) -> ApplicationSummary:
        """Return the next summary.

        Raises:
            SaturatedWindowError: everything else was returned, and these windows
                hold more rows than can be asked for.
            DecodeError: a row is malformed; iterating again continues behind it.
            IncomeClientError: a request failed for good; iterating again tries again.
        """
        while True:
            # A signal is handled after a call, such as that of next: the row would be lost.
            for row in self._items._rows:
                return row
            has_more = self._portal.run(self._items._take_page, self._iterator)
            if not has_more:
                raise StopIteration

    def pages(self) -> SyncIterator[ApplicationPage]:
        """Iterate over pages, without the rows that were yielded before.

        Returns:
            An iterator over the bounds that the service applied, and the rows.

        Raises:
            IncomeClientError: as when iterating over summaries.
        """
        return SyncIterator(self._portal, self._items.pages(), fetched=self._fetched_pages)

    @property
    def progress(self) -> WalkProgress:
        """Progress of the walk."""
        return self._portal.ask(lambda: self._items.progress)

    @property
    def checkpoint(self) -> str:
        """A short text from which a walk can resume.

        It covers a row, and a malformed one that was raised, only once the consumer came
        back for the next one, and a saturated window never.
        """
        return self._portal.ask(lambda: self._items.checkpoint)

    @property
    def saturated(self) -> tuple[Window, ...]:
        """Seconds found so far that hold more rows than one list call returns."""
        return self._portal.ask(lambda: self._items.saturated)


@define(eq=False, repr=False)
class SyncBatch:
    """Records that are new: a `Batch` that ``with batch:`` commits at the end of the block.

    The commit covers every batch before that has not failed. If the block fails, the batch is
    delivered again; a consumer that collects batches calls ``commit`` of the last one. There is no
    ``transaction``, since a connection of asyncpg belongs to an event loop: store ``checkpoint``
    and ``sequence`` with your data instead, and write nothing unless the stored one is smaller.
    """

    _portal: Portal
    _batch: Batch
    number: int = field(init=False)
    """Number of the batch, counted by this poller."""
    records: tuple[ApplicationRecord, ...] = field(init=False)
    """Records that are new since the last batch."""
    delivery_ids: tuple[str, ...] = field(init=False)
    """An id for each record, which is the same when the batch is delivered again."""
    checkpoint: str = field(init=False)
    """Checkpoint of the batch, to pass to ``poll(start=...)``."""
    sequence: int = field(init=False)
    """Grows with each batch of the name, over takeovers as well; it needs 64 bits."""

    def __attrs_post_init__(self) -> None:
        batch = self._batch
        self.number, self.records, self.delivery_ids = (
            batch.number,
            batch.records,
            batch.delivery_ids,
        )
        self.checkpoint, self.sequence = batch.checkpoint, batch.sequence

    def __iter__(self) -> Iterator[ApplicationRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<SyncBatch of {len(self)} records>"

    def __enter__(self) -> Self:
        try:
            self._portal.run(self._batch.__aenter__)
        except BaseException as error:
            self.__exit__(type(error), error, None)  # interrupted before its block
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._portal.run(partial(self._batch.__aexit__, exc_type, exc, traceback))

    @property
    def has_failed(self) -> bool:
        """Whether the batch's block has ended in an error since the last delivery."""
        return self._batch.has_failed

    def commit(self) -> None:
        """Store the checkpoint, which covers every batch before as well.

        A second call does nothing.

        Raises:
            CheckpointConflictError: another poller has taken over the name; nothing was stored.
            CheckpointError: the store cannot be used, or failed when polling was stopped; the
                batch can be committed again.
        """
        self._portal.run(self._batch.commit)


@answers_other_names
class SyncPoller(SyncIterator[ApplicationRecord]):
    """Every update of every application: a `Poller` without await, for one thread.

    Iterate over it for records, or over ``batches()`` for batches. Nothing is read ahead of the
    consumer. ``stop``, ``wake`` and ``status`` may be called in any other thread, in hooks, and in
    a signal's handler.

    Made by ``SyncIncomeClient.poll``, which says what the arguments are.
    """

    _items: Poller

    def __repr__(self) -> str:
        return f"<Sync{repr(self._items)[1:]}"

    def batches(self) -> SyncIterator[SyncBatch]:
        """Iterate over batches, which are committed by their own ``with``.

        Returns:
            An iterator over the batches; one that was not committed when the loop is left is
            delivered again by the next loop. A later commit covers one whose block was not
            entered, as with ``Poller.batches``.

        Raises:
            IncomeClientError: as when iterating over records.
        """
        return SyncIterator(self._portal, _sync_batches(self._portal, self._items))

    def wake(self, _callback: object = None) -> bool:
        """Poll at once instead of at the end of the pause, as ``Poller.wake`` does.

        Returns:
            Whether this poller works, or the store is asked to wake the one that does.
        """
        return not self._portal.is_closed and self._portal.ask(self._items.wake)

    def stop(self, *, after_poll: bool = False) -> None:
        """End the iteration after the current batch; nothing else is begun.

        Args:
            after_poll: end it with the current poll, or else the next, instead; if that poll
                fails, its error is raised.
        """
        self._portal.ask(partial(self._items.stop, after_poll=after_poll))

    @property
    def name(self) -> str:
        """The poller's name, which is its key in the store."""
        return self._items.name

    @property
    def status(self) -> PollerStatus:
        """State of the poller, for a health endpoint."""
        return self._portal.ask(lambda: self._items.status)


async def _sync_batches(portal: Portal, poller: Poller) -> AsyncGenerator[SyncBatch, None]:
    async for batch in poller.batches():
        yield SyncBatch(portal, batch)


@answers_other_names
@strip_frames
class SyncIncomeClient:
    """A client of the income-verification service for code that is not asynchronous.

    Make it by ``SyncIncomeClient.from_env()``, or as an `IncomeClient`. It has the methods and the
    arguments of that. Calls wait for their results, and what
    is iterated over asynchronously there is a plain iterator here. Any thread may call.

    One thread in the background runs the event loop of all connections. It starts with the first
    call, so make the client before or after a process forks, and use it after that only. Hooks
    (``on_event``, ``on_progress``) run in that thread: they must neither block
    nor call the client. A call in a thread whose own event loop runs, such as a notebook's, holds
    up that loop. Ctrl-C ends the call in flight. A client that is not closed ends with the
    program.

    Args:
        base_url: the service's address; https, except on loopback.
        auth: `BasicAuth` or `OAuth2ClientCredentials`, or a function that returns one of them, as
            for `IncomeClient`.
        auth_url: address of the token endpoint's host; ``base_url`` by default.
        options: the other arguments of `IncomeClient`, but no ``session``: that belongs to an
            event loop. So do the stores in NATS, and those in PostgreSQL on a pool of yours, which
            are refused; the ones of ``from_url`` are not.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    def __init__(
        self,
        base_url: str,
        *,
        auth: Auth | AuthFunction,
        auth_url: str | None = None,
        **options: Unpack[SyncClientOptions],
    ) -> None:
        if "session" in options:
            message = "session belongs to an event loop of yours; SyncIncomeClient opens its own"
            raise InvalidArgumentError(message, argument="session")
        _check_stores(options)
        self._client = IncomeClient(base_url, auth=auth, auth_url=auth_url, **options)
        self._portal = Portal(self._client.aclose)
        self._is_view = False

    @classmethod
    @_documented(IncomeClient.from_env)
    def from_env(cls, **options: Unpack[SyncClientOptions]) -> Self:
        """Make a client from environment variables, as ``IncomeClient.from_env``."""
        check_options("from_env", options)
        return from_variables().make_client(cls, options)

    @classmethod
    @_documented(IncomeClient.from_config)
    def from_config(
        cls,
        profile: str | None = None,
        path: str | os.PathLike[str] | None = None,
        **options: Unpack[SyncClientOptions],
    ) -> Self:
        """Make a client from the configuration file, as ``IncomeClient.from_config``."""
        check_options("from_config", options)
        return from_file(profile, path).make_client(cls, options)

    @_documented(IncomeClient.with_options)
    def with_options(
        self,
        *,
        deadline: float | None = None,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
    ) -> Self:
        """Return a view with other limits, as ``IncomeClient.with_options``."""
        view = copy.copy(self)
        view._client = self._client.with_options(deadline=deadline, timeouts=timeouts, retry=retry)
        view._is_view = True
        return view

    def __repr__(self) -> str:
        return f"<Sync{repr(self._client)[1:]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the calls in flight, the connections and the thread; a second call does nothing.

        Calls of other threads raise `ClientClosedError`. In a forked child, the connections stay
        those of the parent.

        Raises:
            ConfigurationError: a hook calls it, in the client's own thread.
        """
        if not self._is_view:
            self._portal.close()

    # One request each

    check: Final = _blocking(IncomeClient.check)
    service_time: Final = _blocking(IncomeClient.service_time)
    get_application_page: Final = _blocking(IncomeClient.get_application_page)
    get_application: Final = _blocking(IncomeClient.get_application)
    get_documents: Final = _blocking(IncomeClient.get_documents)
    get_record: Final = _blocking(IncomeClient.get_record)
    find_application: Final = renamed_argument("application_reference_id", "reference")(
        _blocking(IncomeClient.find_application)
    )
    get_json: Final = _blocking(IncomeClient.get_json)

    # Many requests

    list_applications: Final = _wrapping(IncomeClient.list_applications, SyncApplicationPaginator)
    audit: Final = _blocking(IncomeClient.audit, over="held")
    poll: Final = renamed_argument("checkpoints", "store")(_wrapping(IncomeClient.poll, SyncPoller))

    @overload
    def fetch_records(
        self,
        applications: Applications,
        documents: bool = True,
        pages: bool = False,
        concurrency: int | None = None,
        on_error: Literal["raise"] = "raise",
    ) -> SyncIterator[ApplicationRecord]: ...

    @overload
    def fetch_records(
        self,
        applications: Applications,
        documents: bool = True,
        pages: bool = False,
        concurrency: int | None = None,
        *,
        on_error: Literal["yield"],
    ) -> SyncIterator[ApplicationRecord | FetchFailure]: ...

    @_documented(IncomeClient.fetch_records)
    def fetch_records(
        self,
        applications: Applications,
        documents: bool = True,
        pages: bool = False,
        concurrency: int | None = None,
        on_error: OnError = "raise",
    ) -> SyncIterator[ApplicationRecord] | SyncIterator[ApplicationRecord | FetchFailure]:
        """Read many applications, as ``IncomeClient.fetch_records``."""
        items, iterator = _iterated(self._portal, applications)
        fetch: Callable[..., AsyncIterator[Any]] = self._client.fetch_records
        records = fetch(items, documents, pages, concurrency, on_error=on_error)
        return SyncIterator(self._portal, records, iterator)

    @overload
    def fetch_documents(
        self,
        applications: Applications,
        pages: bool = False,
        concurrency: int | None = None,
        on_error: Literal["raise"] = "raise",
    ) -> SyncIterator[ApplicationDocuments]: ...

    @overload
    def fetch_documents(
        self,
        applications: Applications,
        pages: bool = False,
        concurrency: int | None = None,
        *,
        on_error: Literal["yield"],
    ) -> SyncIterator[ApplicationDocuments | FetchFailure]: ...

    @_documented(IncomeClient.fetch_documents)
    def fetch_documents(
        self,
        applications: Applications,
        pages: bool = False,
        concurrency: int | None = None,
        on_error: OnError = "raise",
    ) -> SyncIterator[ApplicationDocuments] | SyncIterator[ApplicationDocuments | FetchFailure]:
        """Read the documents of many applications, as ``IncomeClient.fetch_documents``."""
        items, iterator = _iterated(self._portal, applications)
        fetch: Callable[..., AsyncIterator[Any]] = self._client.fetch_documents
        documents = fetch(items, pages, concurrency, on_error=on_error)
        return SyncIterator(self._portal, documents, iterator)

    # Document files

    download: Final = _blocking(IncomeClient.download)

    @overload
    def download_all(
        self,
        documents: Documents,
        directory: Folder,
        concurrency: int = ...,
        *,
        names: str = ...,
        overwrite: bool = ...,
        on_progress: OnProgress | None = ...,
        on_error: Literal["raise"] = ...,
    ) -> SyncIterator[DownloadedFile]: ...

    @overload
    def download_all(
        self,
        documents: Documents,
        directory: Folder,
        concurrency: int = ...,
        *,
        names: str = ...,
        overwrite: bool = ...,
        on_progress: OnProgress | None = ...,
        on_error: Literal["yield"],
    ) -> SyncIterator[DownloadedFile | DownloadFailure]: ...

    @_documented(IncomeClient.download_all)
    def download_all(
        self,
        documents: Documents,
        directory: Folder,
        concurrency: int = 8,
        *,
        names: str = FILE_NAMES,
        overwrite: bool = False,
        on_progress: OnProgress | None = None,
        on_error: OnError = "raise",
    ) -> SyncIterator[DownloadedFile] | SyncIterator[DownloadedFile | DownloadFailure]:
        """Download the files of many documents, as ``IncomeClient.download_all``."""
        items, iterator = _iterated(self._portal, documents)
        download: Callable[..., AsyncIterator[Any]] = self._client.download_all
        files = download(
            items,
            directory,
            concurrency,
            names=names,
            overwrite=overwrite,
            on_progress=on_progress,
            on_error=on_error,
        )
        return SyncIterator(self._portal, files, iterator)
