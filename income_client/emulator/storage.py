"""The host of document files: signs its addresses, checks them, knows what each file has become.

Knows which documents there are and how storage answers; knows no socket and no API.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

from income_client.errors import ConfigurationError
from income_client.settings import DownloadPolicy

from .cases import Paper
from .exchange import HttpReply, HttpRequest
from .files import (
    StoredFile,
    address_refusal,
    credentials_refusal,
    file_reply,
    storage_error,
    stored_file,
)
from .signing import AddressSigner, Region, hops_of
from .world import World

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
