"""Pre-signed download addresses, signed over their raw bytes; time is an argument."""

import enum
import hashlib
import hmac
import re
from datetime import datetime
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from attrs import frozen

from .seconds import moment_of, second_of

_SIGNATURE: Final = re.compile(r"(?P<signed>.*)&X-Amz-Signature=(?P<signature>[0-9a-f]{64})\Z")
_DATE: Final = re.compile(
    r"X-Amz-Date=(?P<moment>\d{8}T\d{6})Z&X-Amz-Expires=(?P<lifetime>\d+)", re.ASCII
)


_HOPS: Final = re.compile(r"&x-hops=(?P<hops>\d+)&X-Amz-Signature=", re.ASCII)
_DISPOSITION: Final = quote('attachment; filename="', safe="")


class Region(enum.Enum):
    """Where files are stored; the value is what credentials call it."""

    FIRST = "us-east-1"
    SECOND = "us-west-2"

    @property
    def other(self) -> "Region":
        """The region that this one sends on to."""
        return Region.SECOND if self is Region.FIRST else Region.FIRST


@lru_cache(maxsize=64)
def _terms(now: int, lifetime: int, region: Region) -> str:
    moment = moment_of(now)
    return (
        f"X-Amz-Algorithm=AWS4-HMAC-SHA256"
        f"&X-Amz-Credential=EMULATOR%2F{moment:%Y%m%d}%2F{region.value}%2Fs3%2Faws4_request"
        f"&X-Amz-Date={moment:%Y%m%dT%H%M%SZ}"
        f"&X-Amz-Expires={lifetime}"
        f"&X-Amz-SignedHeaders=host"
    )


class AddressFault(enum.Enum):
    """What is wrong with a download address."""

    UNSIGNED = "unsigned"
    BAD_SIGNATURE = "bad signature"
    EXPIRED = "expired"
    WRONG_REGION = "wrong region"


def hops_of(query: str) -> int:
    """Return how often the bearer of a signed query was sent on already."""
    found = _HOPS.search(query)
    return int(found["hops"]) if found else 0


def end_of(query: str) -> int:
    """Return the service second from which a signed query is no longer good."""
    date = _DATE.search(query)
    if date is None:
        raise ValueError("the query is not signed")
    return second_of(datetime.fromisoformat(date["moment"])) + int(date["lifetime"])


@frozen(kw_only=True)
class AddressSigner:
    """Signs addresses the way object storage does, and checks them byte by byte.

    A client that decodes and encodes the query again breaks the signature,
    since it holds characters that can be written in two ways.
    """

    seed: int
    """What the signing key hangs on."""

    def path(self, document_id: str, file_name: str) -> str:
        """Return the raw path of a document's file."""
        return f"/documents/{document_id}/{quote(file_name, safe='')}"

    def query(
        self,
        path: str,
        file_name: str,
        *,
        now: int,
        lifetime: int,
        region: Region = Region.FIRST,
        hops: int = 0,
    ) -> str:
        """Return the signed raw query for a path.

        Args:
            path: the raw path.
            file_name: what a browser is told to call the file.
            now: the service second of the signature.
            lifetime: seconds until the address expires.
            region: where the address is good.
            hops: how often its bearer was sent on already.
        """
        signed = (
            f"{_terms(now, lifetime, region)}"
            f"&response-content-disposition={_DISPOSITION}{quote(file_name, safe='')}%22"
            f"&x-id=Get%4Fbject%7E1" + (f"&x-hops={hops}" if hops else "")
        )
        return f"{signed}&X-Amz-Signature={self._sign(path, signed)}"

    def fault(
        self, path: str, query: str, *, now: int, region: Region = Region.FIRST
    ) -> AddressFault | None:
        """Return what is wrong with an address, None if it may be used.

        Args:
            path: the raw path.
            query: the raw query.
            now: the present service second.
            region: where it was used.
        """
        parts = _SIGNATURE.match(query)
        if parts is None or _DATE.search(query) is None:
            return AddressFault.UNSIGNED
        if not hmac.compare_digest(parts["signature"], self._sign(path, parts["signed"])):
            return AddressFault.BAD_SIGNATURE
        if f"%2F{region.value}%2Fs3%2F" not in query:
            return AddressFault.WRONG_REGION
        return AddressFault.EXPIRED if now >= end_of(query) else None

    def _sign(self, path: str, signed: str) -> str:
        key = f"invented storage key {self.seed}".encode()
        return hmac.digest(key, f"GET\n{path}\n{signed}".encode(), hashlib.sha256).hex()
