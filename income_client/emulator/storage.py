"""The host of document files: signed addresses, what each file has become, and its replies."""

import enum
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from random import Random
from typing import Final, assert_never
from urllib.parse import quote, urlsplit
from xml.sax.saxutils import escape

from attrs import evolve, field, frozen

from income_client.errors import ConfigurationError
from income_client.settings import DownloadPolicy

from .cases import Paper
from .exchange import HttpReply, HttpRequest
from .times import moment_of, second_of, stamp
from .world import World

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


_DOCUMENT_ID: Final = re.compile(r"doc-(?P<stem>[0-9a-f]{10})-\d+\Z", re.ASCII)
_PATH: Final = re.compile(r"/documents/(?P<document_id>[^/]+)/[^/]+\Z")


class FileStorage:
    """Document files in two regions.

    Args:
        world: the applications, the present second and the rules.
        papers_of: returns the documents of an application's number, as they are now.

    Attributes:
        signer: maker of the addresses.
        urls: where each region is.
    """

    def __init__(self, world: World, papers_of: Callable[[int], Sequence[Paper]]) -> None:
        self.signer: AddressSigner = AddressSigner(seed=world.seed)
        self.urls: dict[Region, str] = dict.fromkeys(Region, "http://127.0.0.1")
        self._world = world
        self._began = world.now
        self._papers_of = papers_of
        self._versions: dict[str, int] = {}

    def address(self, paper: Paper) -> str:
        """Return an address of a document's file, as the rules have it."""
        rules = self._world.rules
        signed_at = self._began if rules.url_signed_once else self._world.now
        return self._address(paper, Region.FIRST, signed_at=signed_at - rules.url_age)

    def policy(self) -> DownloadPolicy:
        """Return what lets a client read files from both regions and from nowhere else."""
        hosts = tuple(urlsplit(url).netloc for url in self.urls.values())
        return DownloadPolicy(allowed_hosts=hosts, require_https=False, allow_private_networks=True)

    def file_of(self, document_id: str) -> StoredFile:
        """Return what a document's file is now.

        Raises:
            ConfigurationError: there is no such document.
        """
        return self._file(self._known(document_id))

    def replace(self, document_id: str) -> None:
        """Put another file in the place of a document's; its addresses stay good.

        Raises:
            ConfigurationError: there is no such document.
        """
        document_id = self._known(document_id).document_id
        self._versions[document_id] = self._versions.get(document_id, 0) + 1

    def respond(self, request: HttpRequest, region: Region) -> HttpReply:
        """Answer a request that came to a region."""
        if request.method != "GET":
            return storage_error(405, "MethodNotAllowed", "Files are only read here.")
        refusal = credentials_refusal(request)
        if refusal is not None:
            return refusal
        now = self._world.now
        fault = self.signer.fault(request.path, request.query, now=now, region=region)
        if fault is not None:
            return address_refusal(fault, request.query, now=now)
        paper = self._paper_at(request.path)
        if paper is None:
            return storage_error(404, "NoSuchKey", "The specified key does not exist.")
        hops = hops_of(request.query)
        if hops < self._world.rules.file_redirects:
            return self._sent_on(paper, region.other, hops + 1)
        return file_reply(request, self._file(paper))

    def _sent_on(self, paper: Paper, region: Region, hops: int) -> HttpReply:
        reply = storage_error(
            307,
            "TemporaryRedirect",
            "Please re-send this request to the specified temporary endpoint.",
        )
        location = self._address(paper, region, signed_at=self._world.now, hops=hops)
        return HttpReply(
            status=reply.status, headers={**reply.headers, "Location": location}, body=reply.body
        )

    def _address(self, paper: Paper, region: Region, *, signed_at: int, hops: int = 0) -> str:
        path = self._path(paper)
        query = self.signer.query(
            path,
            paper.file_names[0],
            now=signed_at,
            lifetime=self._world.rules.url_lifetime,
            region=region,
            hops=hops,
        )
        return f"{self.urls[region]}{path}?{query}"

    def _path(self, paper: Paper) -> str:
        return self.signer.path(paper.document_id, paper.file_names[0])

    def _file(self, paper: Paper) -> StoredFile:
        version = self._versions.get(paper.document_id, 0)
        return stored_file(self._path(paper), self._world.rules.file_bytes, version)

    def _paper_at(self, path: str) -> Paper | None:
        parts = _PATH.match(path)
        paper = self._paper(parts["document_id"]) if parts else None
        return paper if paper is not None and self._path(paper) == path else None

    def _paper(self, document_id: str) -> Paper | None:
        parts = _DOCUMENT_ID.match(document_id)
        number = self._world.number_of(f"app-{parts['stem']}") if parts else None
        papers = () if number is None else self._papers_of(number)
        return next((paper for paper in papers if paper.document_id == document_id), None)

    def _known(self, document_id: str) -> Paper:
        paper = self._paper(document_id)
        if paper is None:
            raise ConfigurationError(f"there is no document {document_id}")
        return paper
