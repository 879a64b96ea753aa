"""The host of document files as one pure function; its files are invented, its errors are XML."""

import hashlib
import re
from functools import lru_cache
from random import Random
from typing import Final, assert_never
from xml.sax.saxutils import escape

from attrs import evolve, field, frozen

from .exchange import HttpReply, HttpRequest
from .seconds import stamp
from .signing import AddressFault, end_of

_RANGE: Final = re.compile(r"bytes=(?P<first>\d*)-(?P<last>\d*)\Z", re.ASCII)
_KINDS: Final = {"pdf": "application/pdf", "png": "image/png"}
_PDF_HEAD: Final = b"%PDF-1.4\n% Invented by an emulator; nobody's data.\n"
_PDF_TAIL: Final = b"\n%%EOF\n"
_PNG_HEAD: Final = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
_PNG_TAIL: Final = b"\x00\x00\x00\x00IEND\xaeB`\x82"


@frozen(kw_only=True)
class StoredFile:
    """A document file."""

    content: bytes = field(repr=False)
    """Its bytes."""
    content_type: str
    """Its media type."""
    etag: str
    """Its entity tag, quotes included."""


@lru_cache(maxsize=32)
def stored_file(path: str, size: int, version: int = 0) -> StoredFile:
    """Return the file at a raw path; the same path, size and version give the same bytes.

    Args:
        path: the raw path; its ending decides on the kind of file.
        size: in bytes.
        version: how often the file was replaced.
    """
    ending = path.rpartition(".")[2]
    head, tail = (_PNG_HEAD, _PNG_TAIL) if ending == "png" else (_PDF_HEAD, _PDF_TAIL)
    chance = Random(f"{path} {version}" if version else path)
    filling = chance.randbytes(max(0, size - len(head) - len(tail)))
    content = (head + filling + tail)[:size]
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return StoredFile(
        content=content,
        content_type=_KINDS.get(ending, "application/octet-stream"),
        etag=f'"{digest}"',
    )


def storage_error(status: int, code: str, message: str, **details: str) -> HttpReply:
    """Return an error in the form of object storage.

    Args:
        status: HTTP status.
        code: what object storage calls it.
        message: the same in words.
        **details: more elements; underscores in their names stand for hyphens.
    """
    elements = {"Code": code, "Message": message}
    elements |= {name.replace("_", "-"): text for name, text in details.items()}
    inner = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in elements.items())
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{inner}<HostId>emulator</HostId></Error>'
    )
    return HttpReply(status=status, headers={"Content-Type": "application/xml"}, body=body.encode())


def address_refusal(fault: AddressFault, query: str, *, now: int) -> HttpReply:
    """Return the reply to an address that may not be used.

    Args:
        fault: what is wrong with it.
        query: its raw query, of which object storage tells more than one would like.
        now: the present service second.
    """
    match fault:
        case AddressFault.UNSIGNED:
            return storage_error(403, "AccessDenied", "Access Denied")
        case AddressFault.BAD_SIGNATURE:
            return storage_error(
                403,
                "SignatureDoesNotMatch",
                "The request signature we calculated does not match the signature you provided.",
                SignatureProvided=query.rpartition("=")[2],
                StringToSign=query,
            )
        case AddressFault.WRONG_REGION:
            return storage_error(
                400,
                "AuthorizationQueryParametersError",
                "Error parsing the X-Amz-Credential parameter; the region is wrong",
            )
        case AddressFault.EXPIRED:
            return storage_error(
                403,
                "AccessDenied",
                "Request has expired",
                Expires=f"{stamp(end_of(query))}Z",
                ServerTime=f"{stamp(now)}Z",
            )
        case _ as never:
            assert_never(never)


def credentials_refusal(request: HttpRequest) -> HttpReply | None:
    """Return the reply to credentials beside those in the address, None where there are none."""
    authorization = request.headers.get("authorization")
    if authorization is not None:
        return storage_error(
            400,
            "InvalidArgument",
            "Only one auth mechanism allowed",
            ArgumentName="Authorization",
            ArgumentValue=authorization,
        )
    if "cookie" in request.headers:
        return storage_error(400, "InvalidRequest", "No cookie belongs here")
    return None


def _asked_part(request: HttpRequest, file: StoredFile) -> re.Match[str] | None:
    parts = _RANGE.match(request.headers.get("range", ""))
    unchanged = request.headers.get("if-range", file.etag) == file.etag
    return parts if parts and unchanged and (parts["first"] or parts["last"]) else None


def _places(asked: re.Match[str], size: int) -> range | None:
    if not asked["first"]:
        suffix = int(asked["last"])
        return range(max(0, size - suffix), size) if suffix else None
    first, last = int(asked["first"]), int(asked["last"] or size)
    if first >= size or last < first:
        return None
    return range(first, min(last + 1, size))


def file_reply(request: HttpRequest, file: StoredFile) -> HttpReply:
    """Return a file, or the part of it that was asked for.

    A Range counts only while If-Range, if there is one, names the entity tag.
    """
    headers = {
        "Content-Type": file.content_type,
        "ETag": file.etag,
        "Accept-Ranges": "bytes",
    }
    asked = _asked_part(request, file)
    if asked is None:
        return HttpReply(status=200, headers=headers, body=file.content)
    size = len(file.content)
    part = _places(asked, size)
    if part is None:
        refusal = storage_error(416, "InvalidRange", "The requested range is not satisfiable")
        return evolve(refusal, headers={**refusal.headers, "Content-Range": f"bytes */{size}"})
    return HttpReply(
        status=206,
        headers={**headers, "Content-Range": f"bytes {part.start}-{part.stop - 1}/{size}"},
        body=file.content[part.start : part.stop],
    )
