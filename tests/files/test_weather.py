"""Files in bad weather: many come whole although connections end and addresses expire on and on."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from income_client import IncomeClient
from income_client.testing import JumpingClock
from tests.support.file_faults import CuttingWeather
from tests.support.files import (
    AUTH,
    NAMES,
    ON_LOOPBACK,
    Paper,
    applications,
    check_all_there,
    documents_of,
    invented_papers,
    paper_service,
    total_bytes,
)
from tests.support.object_storage import moto_server, object_storage
from tests.support.scripted_server import serving

COUNT: Final = 200
LIFETIME: Final = 900
FILES_PER_LIFETIME: Final = 10
MOST_OVERHEAD: Final = 1.3


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Moto in another process."""
    with moto_server() as address:
        yield address


@pytest.mark.parametrize("seed", [1])
async def test_files_of_object_storage_come_whole(endpoint: str, tmp_path: Path, seed: int) -> None:
    """Over cuts, resets and expiries, for little more than their own bytes."""
    papers = invented_papers(COUNT, seed=seed)
    folder = tmp_path / "files"
    asked: Counter[tuple[str, int]] = Counter()
    async with object_storage(endpoint, files=0, seed=seed) as storage:
        await asyncio.gather(*(storage.put(paper.place, paper.content) for paper in papers))
        weather = CuttingWeather(storage, seed, share=0.5)

        def address(paper: Paper) -> str:
            return storage.address(paper.place, lifetime=LIFETIME)

        def note(application_id: str) -> None:
            asked[application_id, storage.time_ahead] += 1

        async with (
            serving(paper_service(papers, address, note)) as service,
            IncomeClient(
                service.url, auth=AUTH, downloads=ON_LOOPBACK, clock=JumpingClock()
            ) as client,
        ):
            documents = await documents_of(client, applications(papers))
            done = 0
            async for _ in client.download_all(documents, folder, names=NAMES):
                done += 1
                if done % FILES_PER_LIFETIME == 0:
                    storage.advance(LIFETIME)
        check_all_there(folder, papers)
        ratio = storage.proxy.body_bytes / total_bytes(papers)
        assert ratio <= MOST_OVERHEAD
        assert weather.ended_early > 0.4 * weather.replies
        assert weather.refusals > 0
        # An expiry costs an application one request, however many of its files it hits.
        assert set(asked.values()) == {1}
