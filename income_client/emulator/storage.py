"""The host of document files, which behaves as an object storage: signed URLs, XML errors.

A client that decodes the query of an address and encodes it again breaks the signature,
since the query holds characters that can be written in two ways.
"""

import enum
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from random import Random
from typing import Final
from urllib.parse import quote, urlsplit
from xml.sax.saxutils import escape

from attrs import field, frozen

from income_client.errors import ConfigurationError
from income_client.settings import DownloadPolicy

from .access import THIS_MACHINE, ServedHosts, host_name
from .exchange import HttpReply, HttpRequest, RefusedError, is_loopback
from .times import moment_of, second_of, stamp
from .world import DocumentFile, World

_PATH: Final = re.compile(r"/documents/(?P<document_id>[^/]+)/[^/]+\Z")
_SIGNED: Final = re.compile(
    r"(?P<terms>.*?&X-Amz-Date=(?P<date>\d{8}T\d{6})Z&X-Amz-Expires=(?P<lifetime>\d+)"
    r"&[^&]*&[^&]*&x-id=[^&]*(&x-hops=(?P<hops>\d+))?)&X-Amz-Signature=(?P<signature>[0-9a-f]{64})\Z",
    re.ASCII,
)
_DISPOSITION: Final = quote('attachment; filename="', safe="")
_RANGE: Final = re.compile(r"bytes=(?P<first>\d{0,18})-(?P<last>\d{0,18})\Z", re.ASCII)
_KINDS: Final = {"pdf": "application/pdf", "png": "image/png"}
_PDF_ENDS: Final = (b"%PDF-1.4\n% Invented by an emulator; nobody's data.\n", b"\n%%EOF\n")
_PNG_ENDS: Final = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    b"\x00\x00\x00\x00IEND\xaeB`\x82",
)


class Region(enum.Enum):
    """The region of a file storage; the value is its name in credentials."""

    FIRST = "us-east-1"
    SECOND = "us-west-2"

    @property
    def other(self) -> "Region":
        """The region to which this one redirects."""
        return Region.SECOND if self is Region.FIRST else Region.FIRST


@frozen(kw_only=True)
class StoredFile:
    """A document file."""

    content: bytes = field(repr=False)
    """Content of the file."""
    content_type: str
    """Media type of the file."""
    etag: str
    """Entity tag of the file, quotes included."""


class FileStorage:
    """Document files in two regions, whose addresses are ``urls``.

    ``files_of`` returns the files of an application's number as they are now, and ``hosts``
    are those for which the regions answer.
    """

    def __init__(
        self,
        world: World,
        files_of: Callable[[int], Iterable[DocumentFile]],
        hosts: ServedHosts = THIS_MACHINE,
    ) -> None:
        self._hosts = hosts
        self.urls: dict[Region, str] = dict.fromkeys(Region, "http://127.0.0.1")
        self._world = world
        self._began = world.now
        self._files_of = files_of
        self._key = f"invented storage key {world.seed}".encode()
        self._versions: dict[str, int] = {}

    def address(self, file: DocumentFile, origin: str | None = None) -> str:
        """Return a URL of a document's file, by the rules.

        Args:
            file: of which document.
            origin: where the file is served; the first region unless given.
        """
        rules = self._world.rules
        signed_at = self._began if rules.url_signed_once else self._world.now
        origin = origin or self.urls[Region.FIRST]
        return self._make_address(file, Region.FIRST, origin, signed_at=signed_at - rules.url_age)

    def policy(self) -> DownloadPolicy:
        """Return a policy that allows files from both regions and from nowhere else."""
        hosts = tuple(urlsplit(url).netloc for url in self.urls.values())
        return DownloadPolicy(allowed_hosts=hosts, require_https=False, allow_private_networks=True)

    def file_of(self, document_id: str) -> StoredFile:
        """Return the current file of a document."""
        return self._stored_file_of(self._get_file(document_id))

    def replace(self, document_id: str) -> None:
        """Replace the file of a document; its URLs stay valid."""
        document_id = self._get_file(document_id).document_id
        self._versions[document_id] = self._versions.get(document_id, 0) + 1

    def query(
        self,
        path: str,
        file_name: str,
        *,
        signed_at: int,
        region: Region = Region.FIRST,
        hops: int = 0,
    ) -> str:
        """Return the signed raw query for a path after a number of redirects."""
        terms = (
            f"{_signed_terms(signed_at, self._world.rules.url_lifetime, region)}"
            f"&response-content-disposition={_DISPOSITION}{quote(file_name, safe='')}%22"
            f"&x-id=Get%4Fbject%7E1" + (f"&x-hops={hops}" if hops else "")
        )
        return f"{terms}&X-Amz-Signature={self._sign_path(path, terms)}"

    def respond(self, request: HttpRequest, region: Region) -> HttpReply:
        """Answer a request that came to a region; errors and redirects are raised."""
        host = request.headers.get("host", "")
        if not self._hosts.serves(host):
            raise _storage_error(421, "MisdirectedRequest", "Only this machine is served.")
        _check_request(request)
        signed = self._check_query(request, region)
        file = self._file_at(request.path)
        if file is None:
            raise _storage_error(404, "NoSuchKey", "The specified key does not exist.")
        hops = int(signed["hops"] or 0)
        if hops < self._world.rules.file_redirects:
            now = self._world.now
            origin = self._origin_for(host, region.other)
            location = self._make_address(file, region.other, origin, signed_at=now, hops=hops + 1)
            raise _storage_error(
                307,
                "TemporaryRedirect",
                "Please re-send this request to the specified temporary endpoint.",
                headers={"Location": location},
            )
        return _file_reply(request, self._stored_file_of(file))

    def _origin_for(self, host: str, region: Region) -> str:
        """Return the origin of a region, for a client that knows this machine by a host."""
        url = self.urls[region]
        if is_loopback(host):
            return url
        return f"http://{host_name(host)}:{urlsplit(url).port}"

    def _check_query(self, request: HttpRequest, region: Region) -> re.Match[str]:
        """Return the parts of a signed query; refuse a URL that is not valid here."""
        signed = _SIGNED.match(request.query)
        if signed is None:
            raise _storage_error(403, "AccessDenied", "Access Denied")
        expected = self._sign_path(request.path, signed["terms"])
        if not hmac.compare_digest(signed["signature"], expected):
            # Object storage shows the query, so a client must not log such a reply.
            raise _storage_error(
                403,
                "SignatureDoesNotMatch",
                "The request signature we calculated does not match the signature you provided.",
                SignatureProvided=signed["signature"],
                StringToSign=request.query,
            )
        if f"%2F{region.value}%2Fs3%2F" not in signed["terms"]:
            raise _storage_error(
                400,
                "AuthorizationQueryParametersError",
                "Error parsing the X-Amz-Credential parameter; the region is wrong",
            )
        now = self._world.now
        end = second_of(datetime.fromisoformat(signed["date"])) + int(signed["lifetime"])
        if now >= end:
            raise _storage_error(
                403,
                "AccessDenied",
                "Request has expired",
                Expires=f"{stamp(end)}Z",
                ServerTime=f"{stamp(now)}Z",
            )
        return signed

    def _make_address(
        self, file: DocumentFile, region: Region, origin: str, *, signed_at: int, hops: int = 0
    ) -> str:
        path = _path_of(file)
        name = file.file_name
        query = self.query(path, name, signed_at=signed_at, region=region, hops=hops)
        return f"{origin}{path}?{query}"

    def _sign_path(self, path: str, terms: str) -> str:
        return hmac.digest(self._key, f"GET\n{path}\n{terms}".encode(), hashlib.sha256).hex()

    def _stored_file_of(self, file: DocumentFile) -> StoredFile:
        version = self._versions.get(file.document_id, 0)
        return _stored_file(_path_of(file), self._world.rules.file_bytes, version)

    def _file_at(self, path: str) -> DocumentFile | None:
        parts = _PATH.match(path)
        file = self._find_file(parts["document_id"]) if parts else None
        return file if file is not None and _path_of(file) == path else None

    def _find_file(self, document_id: str) -> DocumentFile | None:
        number = self._world.number_of_document(document_id)
        files = () if number is None else self._files_of(number)
        return next((file for file in files if file.document_id == document_id), None)

    def _get_file(self, document_id: str) -> DocumentFile:
        file = self._find_file(document_id)
        if file is None:
            raise ConfigurationError(f"there is no document {document_id}")
        return file


def _check_request(request: HttpRequest) -> None:
    if request.method != "GET":
        raise _storage_error(405, "MethodNotAllowed", "Files are only read here.")
    authorization = request.headers.get("authorization")
    if authorization is not None:
        raise _storage_error(
            400,
            "InvalidArgument",
            "Only one auth mechanism allowed",
            ArgumentName="Authorization",
            ArgumentValue=authorization,
        )
    if "cookie" in request.headers:
        raise _storage_error(400, "InvalidRequest", "No cookie belongs here")


def _storage_error(
    status: int,
    code: str,
    message: str,
    *,
    headers: Mapping[str, str] | None = None,
    **details: str,
) -> RefusedError:
    """Return an error in the form of object storage."""
    elements = {"Code": code, "Message": message, **details, "HostId": "emulator"}
    inner = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in elements.items())
    return RefusedError(
        HttpReply(
            status=status,
            headers={"Content-Type": "application/xml", **(headers or {})},
            body=f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{inner}</Error>'.encode(),
        )
    )


def _path_of(file: DocumentFile) -> str:
    return f"/documents/{file.document_id}/{quote(file.file_name, safe='')}"


@lru_cache(maxsize=64)
def _signed_terms(signed_at: int, lifetime: int, region: Region) -> str:
    moment = moment_of(signed_at)
    return (
        f"X-Amz-Algorithm=AWS4-HMAC-SHA256"
        f"&X-Amz-Credential=EMULATOR%2F{moment:%Y%m%d}%2F{region.value}%2Fs3%2Faws4_request"
        f"&X-Amz-Date={moment:%Y%m%dT%H%M%SZ}"
        f"&X-Amz-Expires={lifetime}"
        f"&X-Amz-SignedHeaders=host"
    )


@lru_cache(maxsize=32)
def _stored_file(path: str, size: int, version: int) -> StoredFile:
    """Return the file at a path; the same path, size and version give the same bytes."""
    ending = path.rpartition(".")[2]
    head, tail = _PNG_ENDS if ending == "png" else _PDF_ENDS
    chance = Random(f"{path} {version}" if version else path)
    filling = chance.randbytes(max(0, size - len(head) - len(tail)))
    content = (head + filling + tail)[:size]
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    kind = _KINDS.get(ending, "application/octet-stream")
    return StoredFile(content=content, content_type=kind, etag=f'"{digest}"')


def _file_reply(request: HttpRequest, file: StoredFile) -> HttpReply:
    """Return a file or its requested range, if the file is unchanged since."""
    headers = {"Content-Type": file.content_type, "ETag": file.etag, "Accept-Ranges": "bytes"}
    range_match = _RANGE.match(request.headers.get("range", ""))
    is_unchanged = request.headers.get("if-range", file.etag) == file.etag
    if range_match is None or not is_unchanged or not (range_match["first"] or range_match["last"]):
        return HttpReply(status=200, headers=headers, body=file.content)
    size = len(file.content)
    if range_match["first"]:
        first, last = int(range_match["first"]), min(int(range_match["last"] or size), size - 1)
    else:
        first, last = max(0, size - int(range_match["last"])), size - 1
    if first > last:
        message = "The requested range is not satisfiable"
        raise _storage_error(
            416, "InvalidRange", message, headers={"Content-Range": f"bytes */{size}"}
        )
    return HttpReply(
        status=206,
        headers={**headers, "Content-Range": f"bytes {first}-{last}/{size}"},
        body=file.content[first : last + 1],
    )
