"""Files in bad weather from the emulator's host: cuts, resets, redirects, expired addresses."""

import re
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import Final

import pytest
from attrs import evolve

from income_client import Document, IncomeClient
from income_client.emulator import Emulator, Fault, RecordedRequest, ServiceRules
from income_client.testing import JumpingClock
from tests.support.downloads import files_below, mode_of
from tests.support.files import documents_of

COUNT: Final = 60
SIZE: Final = 40_000
LIFETIME: Final = 60
FILES_PER_LIFETIME: Final = 10
MOST_OVERHEAD: Final = 1.3
LONGEST_REFUSAL: Final = 1000
DOCUMENT: Final = re.compile(r"/documents/(?P<id>[^/]+)/")


def faults_for(document: Document, chance: Random) -> list[Fault]:
    """Return what befalls a document's file, one request after the other.

    Two of its requests at most bring nothing, since a third one in a row would be the
    end. A cut lets the text of a refusal through: what it says is part of the play.
    """
    path = f"/documents/{document.document_id}/*"
    resets = [Fault("reset", path=path)] * 2
    places = [chance.randint(LONGEST_REFUSAL, SIZE) for _ in range(6)]
    pool = [*resets, *(Fault("cut", path=path, keep=place) for place in places)]
    return chance.sample(pool, k=chance.randint(0, 6))


def bytes_given(requests: list[RecordedRequest], faults: list[Fault]) -> int:
    """Return how many bytes of bodies the requests for one file were given, at most."""
    given = 0
    played = iter(faults)
    for request in requests:
        fault = None if request.fault is None else next(played)
        first = int(request.headers.get("range", "bytes=0-")[len("bytes=") :].rstrip("-"))
        whole = SIZE - first if request.status in (200, 206) else LONGEST_REFUSAL
        keep = whole if fault is None or fault.keep is None else fault.keep
        given += min(keep, whole) if request.status else 0
    return given


@pytest.mark.parametrize("seed", [1])
async def test_files_of_the_emulator_come_whole(tmp_path: Path, seed: int) -> None:
    """Whatever befalls them at places that only the seed decides on."""
    chance, clock = Random(seed), JumpingClock()
    rules = ServiceRules(file_bytes=SIZE, url_lifetime=LIFETIME)
    async with (
        Emulator(30, seed=seed, clock=clock, rules=rules) as service,
        IncomeClient(
            service.url, auth=service.oauth2, downloads=service.download_policy, clock=clock
        ) as client,
    ):
        documents = (await documents_of(client, service.world.ids))[:COUNT]
        assert len(documents) == COUNT
        faults = {document.document_id: faults_for(document, chance) for document in documents}
        for some in faults.values():
            service.faults.add(*some)
        service.requests.clear()
        done = 0
        async for _ in client.download_all(documents, tmp_path, names="{document_id}"):
            done += 1
            if done % FILES_PER_LIFETIME == 0:
                service.advance(LIFETIME)
                service.rules = evolve(service.rules, file_redirects=chance.randint(0, 3))
        contents = {one.document_id: service.content_of(one.document_id) for one in documents}
    assert files_below(tmp_path) == contents
    assert {mode_of(tmp_path / name) for name in contents} == {0o600}
    assert sum(request.fault is not None for request in service.requests) > COUNT
    asked = defaultdict(list)
    for request in service.requests:
        if found := DOCUMENT.match(request.path):
            asked[found["id"]].append(request)
    given = sum(bytes_given(asked[name], faults[name]) for name in contents)
    renewals = Counter((r.path, r.time) for r in service.requests if r.name == "get_documents")
    assert given <= MOST_OVERHEAD * COUNT * SIZE
    # An expiry costs an application one request, however many of its files it hits.
    assert set(renewals.values()) == {1}
