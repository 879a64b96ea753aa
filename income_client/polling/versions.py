"""When two replies about an application say the same; knows content only as a digest.

Two updates can share a second, so that no time tells versions apart: the content
does. Addresses are left out of it, since signed ones change with each reply, and
so is what JSON gives no meaning to: the order of an object's members. The order
of documents is the service's whim as well.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar

import msgspec
from attrs import field, frozen

from income_client.errors import IncomeClientError
from income_client.http.endpoints import Request, Response
from income_client.http.replies import S, read_about
from income_client.records.applications import Application
from income_client.records.documents import ApplicationDocuments, ApplicationRecord

T = TypeVar("T")

KEY_BYTES: Final = 6
DIGEST_BYTES: Final = 8
"""Checkpoints hold many of both: 64 bits are enough to tell versions of one application apart."""
_FULL_KEY: Final = 8
_FULL_DIGEST: Final = 16
"""They are cut from these, which checkpoints of version 1 hold."""
_BOM: Final = b"\xef\xbb\xbf"
_EXACT: Final = msgspec.json.Decoder(float_hook=Decimal)
_SORTED: Final = msgspec.json.Encoder(decimal_format="number", order="deterministic")
_ADDRESS: Final = ("http://", "https://")
_DATA: Final = frozenset({"applicants", "extracted_data", "income_calculations"})
"""Members that hold what was read or calculated; an address in them is content."""


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


def read_version(
    cls: type[S], request: Request, response: Response
) -> Versioned[S] | IncomeClientError:
    """Read a reply as `read_about` does, and note which version it is.

    Args:
        cls: the record class of the payload.
        request: what was asked.
        response: what came back.

    Returns:
        The payload with its digest, or the error that stands for the reply.
    """
    payload = read_about(cls, request, response)
    if isinstance(payload, IncomeClientError):
        return payload
    content = hashlib.blake2b(_encoded(payload.application_id), digest_size=_FULL_DIGEST)
    content.update(canonical(response.body))
    return Versioned(payload, content.digest())


def canonical(body: bytes) -> bytes:
    """Return the meaning of a reply's JSON in one form, without addresses."""
    try:
        return _SORTED.encode(_plain(_EXACT.decode(body.removeprefix(_BOM))))
    except (ValueError, ArithmeticError, RecursionError):  # too deep, or too large a number
        return body


def _plain(value: Any) -> Any:
    match value:
        case {"documents": Mapping() as documents, **others}:
            sorted_documents = {key: _documents(items) for key, items in documents.items()}
            return {**_without_addresses(others), "documents": sorted_documents}
        case _:
            return _without_addresses(value)


def _documents(items: Any) -> Any:
    if not isinstance(items, list):
        return _without_addresses(items)
    plain = [_without_addresses(item) for item in items]
    return sorted(plain, key=_SORTED.encode)


def _without_addresses(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: item if name in _DATA else _without_addresses(item)
                for name, item in value.items()
                if name != "url"
            }
        case list():
            return [_without_addresses(item) for item in value]
        case str() if value.startswith(_ADDRESS):
            return None
        case _:
            return value


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
