"""Reading what was listed: pages for their ids, versions of records, and which are given up.

Two updates can share a second, so that no time distinguishes versions: the content does, as a
digest. Addresses are left out of it, since signed ones change with each reply, and so are the
order of an object's members and that of documents.

A record that cannot be read is tried again after the others of its page, and then given up.
A failure that may be the service's and not the record's counts only while the service gives
other records: if it gives none, nothing is given up, and the failure is the poll's.

A poller needs no more of a row than its id: a row that is not what the contract says does not
hold up the applications of the others. A page whose bounds cannot be read, or of which a row
has no id, is an error.
"""

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime
from http import HTTPStatus
from operator import itemgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from attrs import evolve, field, frozen

from income_client.errors import (
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    IncomeClientError,
    NotFoundError,
)
from income_client.http.endpoints import Request, Response
from income_client.http.replies import read_reply
from income_client.records.applications import (
    Application,
    ApplicationPage,
    ApplicationSummary,
)
from income_client.records.documents import ApplicationDocuments, ApplicationRecord
from income_client.records.window import EPOCH, Window
from income_client.wire.codec import decode

T = TypeVar("T")
S = TypeVar("S", Application, ApplicationDocuments)

BATCH_SIZE: Final = 100
_CERTAIN: Final = (NotFoundError, DecodeError, ConfigurationError)
_ATTEMPTS_IF_CERTAIN: Final = 2
_ATTEMPTS_IF_LATE: Final = 1
_ATTEMPTS: Final = 3

KEY_BYTES: Final = 6
DIGEST_BYTES: Final = 8
"""Checkpoints hold many of both: 64 bits are enough to tell versions of one application apart."""
_FULL_KEY: Final = 8
_FULL_DIGEST: Final = 16
"""They are cut from these, which checkpoints of version 1 hold."""
_SORTED: Final = msgspec.json.Encoder(decimal_format="number", order="deterministic", enc_hook=str)
"""Writes equal content as equal bytes; the hook is for numbers beyond those of an amount."""
_ADDRESS: Final = ("http://", "https://")
_NO_ADDRESSES: Final = frozenset(
    {
        "applicants", "application_date", "application_id", "application_reference_id",
        "data_action", "document_id", "extracted_data", "file_ids", "file_reference_ids",
        "income_calculations", "last_updated_at", "updated_at",
    }
)  # fmt: skip
"""Members without addresses of files: an address in what was read or calculated is content."""


class _ListedRow(msgspec.Struct):
    application_id: str


class _ListedPage(msgspec.Struct):
    applications: list[_ListedRow]
    updated_after: str
    updated_before: str


def read_page(request: Request, response: Response) -> ApplicationPage:
    """Read a page of the list; one with invalid rows is read for their ids (section 2.1)."""
    try:
        return read_reply(ApplicationPage, request, response)
    except IncomeClientError:
        page = _read_ids(response.body) if response.status == HTTPStatus.OK else None
        if page is None:
            raise
        return page


def _read_ids(body: bytes) -> ApplicationPage | None:
    try:
        # A lenient parser: half a character in one row makes the whole invalid for the other.
        page = msgspec.convert(json.loads(body), _ListedPage)
        bounds = {"updated_after": page.updated_after, "updated_before": page.updated_before}
        empty = decode(ApplicationPage, msgspec.json.encode({**bounds, "applications": []}))
    except (ValueError, RecursionError, DecodeError):
        return None
    rows = (
        ApplicationSummary(
            application_id=row.application_id, application_reference_id="", application_date=EPOCH
        )
        for row in page.applications
    )
    return evolve(empty, applications=tuple(rows))


@frozen
class Versioned(Generic[T]):
    """The payload of a reply, and what tells it from other versions."""

    payload: T
    """What the reply holds."""
    digest: bytes = field(repr=False)
    """Equal for replies that say the same."""


@frozen
class RecordVersion:
    """A record as it was read, and what tells it from other versions."""

    record: ApplicationRecord
    """The application with its documents."""
    digest: bytes = field(repr=False)
    """Equal for records that say the same."""

    @classmethod
    def of(
        cls,
        application: Versioned[Application],
        documents: Versioned[ApplicationDocuments] | None = None,
    ) -> "RecordVersion":
        """Put together what two replies hold."""
        record = ApplicationRecord(
            application=application.payload,
            documents=None if documents is None else documents.payload,
        )
        digest = application.digest if documents is None else application.digest + documents.digest
        full = hashlib.blake2b(digest, digest_size=_FULL_DIGEST).digest()
        return cls(record, full[:DIGEST_BYTES])

    @property
    def updated_at(self) -> datetime:
        """The latest update that the record itself tells of, in UTC; a hint, no more."""
        documents = () if self.record.documents is None else self.record.documents.all()
        times = (document.updated_at for _, document in documents)
        return max([self.record.last_updated_at, *times])


def key_of(application_id: str) -> bytes:
    """Return a short stand-in for an id; two ids with the same one cost a repetition, no loss."""
    full = hashlib.blake2b(_encoded(application_id), digest_size=_FULL_KEY).digest()
    return full[:KEY_BYTES]


def read_version(cls: type[S], request: Request, response: Response) -> Versioned[S]:
    """Read a reply as `read_reply` does, with the digest of its content."""
    content: list[bytes] = []
    payload = read_reply(cls, request, response, lambda tree: content.append(canonical(cls, tree)))
    digest = hashlib.blake2b(_encoded(payload.application_id), digest_size=_FULL_DIGEST)
    digest.update(content[0])
    return Versioned(payload, digest.digest())


def canonical(cls: type, tree: dict[str, Any]) -> bytes:
    """Return the content of a parsed reply in one form; its addresses are taken out of the tree."""
    if cls is not ApplicationDocuments:
        return _SORTED.encode(_without_addresses(tree))
    by_type = tree.pop("documents")
    for documents in by_type.values():
        for document in documents:
            _without_addresses(document)
        ids = [document["document_id"] for document in documents]
        is_clear = len(set(ids)) == len(ids)
        documents.sort(key=itemgetter("document_id") if is_clear else _SORTED.encode)
    return _SORTED.encode({**_without_addresses(tree), "documents": by_type})


def _without_addresses(value: Any) -> Any:
    if isinstance(value, dict):
        value.pop("url", None)
        for name, item in value.items():
            if name not in _NO_ADDRESSES:
                value[name] = _without_addresses(item)
    elif isinstance(value, list):
        return [_without_addresses(item) for item in value]
    elif isinstance(value, str) and value.startswith(_ADDRESS):
        return None
    return value


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


Results: TypeAlias = Mapping[str, RecordVersion | IncomeClientError]
"""By application id: what reading it gave."""


@frozen(kw_only=True)
class Read:
    """Applications that are to be read now."""

    application_ids: tuple[str, ...]
    """Which ones."""
    pause: float = 0.0
    """Seconds to let pass before, where they were tried a moment ago."""


@frozen
class Row:
    """An application that was listed."""

    application_id: str
    """Which one."""
    window: Window
    """Where the list showed it."""
    is_letter: bool = False
    """Whether it was given up before, and is not tried twice."""
    attempts: int = 0
    """How often it was tried."""
    is_doubtful: bool = False
    """Whether it failed in a way that may be the service's."""


@frozen
class GivenUp:
    """An application that could not be read."""

    row: Row
    """Which one, with all attempts counted."""
    error: IncomeClientError
    """The last failure."""


@frozen
class Taken:
    """What reading has settled."""

    read: tuple[tuple[Row, RecordVersion], ...]
    """Those that were read."""
    given_up: tuple[GivenUp, ...]
    """Those that were not."""


class Reading:
    """The applications of a poll that are still to be read.

    The witness is an application that was read not long ago: reading it again shows whether
    the service gives anything at all.
    """

    def __init__(self, witness: str | None = None) -> None:
        self.witness = witness
        self._rows: deque[Row] = deque()
        self._asked: tuple[Row, ...] = ()
        self._control: str | None = None
        self._doubts = False

    def set_aside(self) -> tuple[Row, ...]:
        """Remove and return all that waits, without giving it up."""
        rows = tuple(self._rows)
        self._rows.clear()
        self._asked, self._doubts = (), False
        return rows

    def __len__(self) -> int:
        return len(self._rows)

    def extend(self, rows: Iterable[Row]) -> None:
        """Put applications behind those that wait already."""
        self._rows.extend(rows)

    def next(self) -> Read:
        """Return what to read now; what was asked for and not answered is asked for again."""
        self._asked = tuple(self._rows)[:BATCH_SIZE]
        ids = [row.application_id for row in self._asked]
        doubts = self._doubts or all(row.is_doubtful for row in self._asked)
        self._control = self._other_than(ids) if doubts else None
        pause = min(row.attempts for row in self._asked) + self._doubts
        asked = ids if self._control is None else [*ids, self._control]
        return Read(application_ids=tuple(asked), pause=float(pause))

    def receive(self, results: Results) -> Taken:
        """Return what the results settle; raise the failure of a service that gives nothing."""
        read = [key for key, result in results.items() if isinstance(result, RecordVersion)]
        doubtful = self._doubtful(results)
        if read:
            self.witness = read[-1]
        elif doubtful is not None:
            ids = [row.application_id for row in self._asked]
            if self._control is not None or self._doubts or self._other_than(ids) is None:
                raise doubtful
            self._doubts = True
            return Taken((), ())
        self._doubts = False
        return self._taken(results)

    def _doubtful(self, results: Results) -> IncomeClientError | None:
        """Return a failure that may be the service's own, if there is one."""
        for row in self._asked:
            result = results[row.application_id]
            if isinstance(result, RecordVersion) or row.is_letter or _is_certain(result):
                continue
            return result
        return None

    def _taken(self, results: Results) -> Taken:
        read, given_up = [], []
        for row in self._asked:
            self._rows.popleft()
            result = results[row.application_id]
            if isinstance(result, RecordVersion):
                read.append((row, result))
                continue
            tried = evolve(row, attempts=row.attempts + 1, is_doubtful=not _is_certain(result))
            if row.is_letter or tried.attempts >= _enough(result):
                given_up.append(GivenUp(tried, result))
            else:
                self._rows.append(tried)
        self._asked = ()
        return Taken(tuple(read), tuple(given_up))

    def _other_than(self, ids: Iterable[str]) -> str | None:
        """Return an application to see whether the service gives at least that one."""
        taken = set(ids)
        others = (row.application_id for row in reversed(self._rows))
        return next((i for i in (self.witness, *others) if i is not None and i not in taken), None)


def _enough(error: IncomeClientError) -> int:
    """Return after how many attempts an application is given up."""
    if isinstance(error, DeadlineExceededError):
        # Its time is lost to all others, and a dead letter is tried again as well.
        return _ATTEMPTS_IF_LATE
    return _ATTEMPTS_IF_CERTAIN if _is_certain(error) else _ATTEMPTS


def _is_certain(error: IncomeClientError) -> bool:
    """Return whether a failure is about the record and not about the service."""
    return isinstance(error, _CERTAIN) and not error.retryable
