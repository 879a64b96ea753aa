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


_DISPOSITION: Final = quote('attachment; filename="', safe="")


@lru_cache(maxsize=64)
def _terms(now: int, lifetime: int) -> str:
    moment = moment_of(now)
    return (
        f"X-Amz-Algorithm=AWS4-HMAC-SHA256"
        f"&X-Amz-Credential=EMULATOR%2F{moment:%Y%m%d}%2Fus-east-1%2Fs3%2Faws4_request"
        f"&X-Amz-Date={moment:%Y%m%dT%H%M%SZ}"
        f"&X-Amz-Expires={lifetime}"
        f"&X-Amz-SignedHeaders=host"
    )


class AddressFault(enum.Enum):
    """What is wrong with a download address."""

    UNSIGNED = "unsigned"
    BAD_SIGNATURE = "bad signature"
    EXPIRED = "expired"


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

    def query(self, path: str, file_name: str, *, now: int, lifetime: int) -> str:
        """Return the signed raw query for a path.

        Args:
            path: the raw path.
            file_name: what a browser is told to call the file.
            now: the present service second.
            lifetime: seconds until the address expires.
        """
        signed = (
            f"{_terms(now, lifetime)}"
            f"&response-content-disposition={_DISPOSITION}{quote(file_name, safe='')}%22"
            f"&x-id=Get%4Fbject%7E1"
        )
        return f"{signed}&X-Amz-Signature={self._sign(path, signed)}"

    def fault(self, path: str, query: str, *, now: int) -> AddressFault | None:
        """Return what is wrong with an address, None if it may be used.

        Args:
            path: the raw path.
            query: the raw query.
            now: the present service second.
        """
        parts = _SIGNATURE.match(query)
        date = _DATE.search(query)
        if parts is None or date is None:
            return AddressFault.UNSIGNED
        if not hmac.compare_digest(parts["signature"], self._sign(path, parts["signed"])):
            return AddressFault.BAD_SIGNATURE
        expires_at = second_of(datetime.fromisoformat(date["moment"])) + int(date["lifetime"])
        return AddressFault.EXPIRED if now >= expires_at else None

    def _sign(self, path: str, signed: str) -> str:
        key = f"invented storage key {self.seed}".encode()
        return hmac.digest(key, f"GET\n{path}\n{signed}".encode(), hashlib.sha256).hex()
