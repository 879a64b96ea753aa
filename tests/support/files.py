"""Invented files of mixed sizes, and a service that says where they are; stores none of them."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Final

from attrs import field, frozen

from income_client import Document, DownloadPolicy, IncomeClient, OAuth2ClientCredentials
from tests.support.downloads import files_below, mode_of
from tests.support.payloads import DOCUMENTS
from tests.support.server import Answer, Reply, Request, json_reply, reply, token_rules

AUTH: Final = OAuth2ClientCredentials("invented-client", "invented-secret")
ON_LOOPBACK: Final = DownloadPolicy(
    allowed_hosts=("127.0.0.1",), require_https=False, allow_private_networks=True
)
NAMES: Final = "{application_id}/{document_id}"
"""What the files are called."""

_PER_APPLICATION: Final = 10
_EMPTY_EVERY: Final = 50
_FIRST: Final = "/v1/income/applications/"
_LAST: Final = "/documents"


@frozen
class Paper:
    """The file of a document."""

    application_id: str
    """Whose it is."""
    document_id: str
    """Which one."""
    content: bytes = field(repr=False)
    """What is in it."""

    @property
    def place(self) -> str:
        """Where it goes, below a folder."""
        return f"{self.application_id}/{self.document_id}"


def invented_papers(
    count: int, *, seed: int, least: int = 1000, most: int = 1_000_000
) -> tuple[Paper, ...]:
    """Make papers up, ten to an application: a few empty, small ones as many as big ones.

    Args:
        count: how many.
        seed: what sizes and contents hang on.
        least: shortest that is not empty, in bytes.
        most: longest, in bytes.
    """
    chance = Random(seed)
    papers = []
    for number in range(count):
        size = int(math.exp(chance.uniform(math.log(least), math.log(most))))
        content = chance.randbytes(0 if number % _EMPTY_EVERY == _EMPTY_EVERY // 2 else size)
        papers.append(Paper(f"app-{number // _PER_APPLICATION}", f"doc-{number}", content))
    return tuple(papers)


def total_bytes(papers: Iterable[Paper]) -> int:
    """Return how long they are together."""
    return sum(len(paper.content) for paper in papers)


def applications(papers: Iterable[Paper]) -> list[str]:
    """Return the ids of their applications, each once."""
    return list(dict.fromkeys(paper.application_id for paper in papers))


def paper_service(
    papers: Iterable[Paper], address: Callable[[Paper], str], on_asked: Callable[[str], object]
) -> Answer:
    """Sell tokens, and say of an application which documents it has and where they are.

    Args:
        papers: what there is.
        address: makes the address of one, anew with every request.
        on_asked: told of every application whose documents are asked for.
    """
    by_application: dict[str, list[Paper]] = {}
    for paper in papers:
        by_application.setdefault(paper.application_id, []).append(paper)

    def answer(request: Request) -> Reply:
        application_id = request.path.removeprefix(_FIRST).removesuffix(_LAST)
        if not request.authorization.startswith("Bearer ") or application_id not in by_application:
            return reply(404)
        on_asked(application_id)
        (sample, *_) = DOCUMENTS["documents"]["paystub"]
        listed = [
            {**sample, "document_id": paper.document_id, "url": address(paper)}
            for paper in by_application[application_id]
        ]
        body = {**DOCUMENTS, "application_id": application_id, "documents": {"paystub": listed}}
        return json_reply(body)

    return token_rules(answer)


async def documents_of(client: IncomeClient, application_ids: Iterable[str]) -> list[Document]:
    """Read the documents of applications, one after the other."""
    found: list[Document] = []
    for application_id in application_ids:
        documents = await client.get_documents(application_id)
        found += [document for _, document in documents.all()]
    return found


def check_all_there(folder: Path, papers: Iterable[Paper]) -> None:
    """Check that a folder holds these papers, whole and private, and nothing else."""
    there = files_below(folder)
    expected = {paper.place: paper.content for paper in papers}
    assert there.keys() == expected.keys()
    assert [place for place, content in there.items() if content != expected[place]] == []
    assert {mode_of(folder / place) for place in there} == {0o600}
