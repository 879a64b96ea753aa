"""Processes that download and are killed: what has a name is whole, the rest is gone on with."""

from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import pytest
from attrs import evolve

from tests.support.download_worker import Life
from tests.support.files import Paper, applications, invented_papers, total_bytes
from tests.support.killed_checks import (
    check_costs,
    parts_below,
    unfinished_parts_below,
    whole_files,
)
from tests.support.killed_host import FileHost
from tests.support.killed_nursery import Nursery
from tests.support.service import until

KILLS: Final = 20
MOST_OVERHEAD: Final = 1.3
BLOCK: Final = 2**20
STRIDE: Final = 4_000_000


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    """Lend a source of processes that download."""
    async with Nursery() as source:
        yield source


async def killed(nursery: Nursery, host: FileHost, chance: Random, left: list[Paper]) -> list[str]:
    """Kill a life after some bytes or some files, and return what it has said."""
    words: list[str] = []
    if chance.random() < 0.5:
        host.stop_after(chance.randint(1, total_bytes(left) // 8))
        await host.reached.wait()
    else:
        most = chance.randint(0, len(left) // 16)
        while sum(word.startswith("file") for word in words) <= most:
            words.append(await nursery.word())
        host.stop()
    words += await nursery.kill()
    host.go_on()
    return words


async def test_downloads_that_are_killed_again_and_again_come_to_their_end(
    nursery: Nursery, tmp_path: Path
) -> None:
    """What has a name is never cut and never fetched again; what was told of is there."""
    papers = invented_papers(200, seed=3)
    chance, folder = Random(5), tmp_path / "files"
    told: list[str] = []
    was_whole: list[AbstractSet[str]] = [set()]
    async with FileHost.opened(papers) as host:
        life = Life(url=host.url, application_ids=applications(papers), folder=str(folder))
        for _ in range(KILLS):
            nursery.start(evolve(life, number=host.life))
            left = [paper for paper in papers if paper.document_id not in was_whole[-1]]
            told += await killed(nursery, host, chance, left)
            assert len(unfinished_parts_below(folder)) <= life.concurrency
            was_whole.append(whole_files(folder, papers, told))
        nursery.start(evolve(life, number=host.life))
        told += await nursery.wait()
    told.remove("over")
    was_whole.append(whole_files(folder, papers, told))
    assert was_whole[-1] == {paper.document_id for paper in papers}
    assert parts_below(folder) == []
    # Files shorter than a block are on no disk before they are whole: those begin anew.
    check_costs(host, was_whole, concurrency=life.concurrency)


async def test_what_is_on_the_disk_is_gone_on_with(nursery: Nursery, tmp_path: Path) -> None:
    """A long file is killed again and again, and each time less than a block is lost."""
    papers = invented_papers(1, seed=3, least=4 * STRIDE, most=4 * STRIDE + 1)
    folder = tmp_path / "files"

    def size_on_disk() -> int:
        return sum((folder / name).stat().st_size for name in parts_below(folder))

    def is_on_disk(size: int) -> bool:
        return size_on_disk() > size

    async with FileHost.opened(papers) as host:
        life = Life(url=host.url, application_ids=applications(papers), folder=str(folder))
        for _ in range(3):
            enough = size_on_disk() + STRIDE - BLOCK
            host.stop_after(STRIDE)
            nursery.start(evolve(life, number=host.life))
            await host.reached.wait()
            await until(partial(is_on_disk, enough))
            assert await nursery.kill() == []
            host.go_on()
        nursery.start(evolve(life, number=host.life))
        (word, _) = await nursery.wait()
    whole_files(folder, papers, [word])
    assert parts_below(folder) == []
    fetched = [one for one in host.given if one.until > 1]
    assert [one.life for one in fetched] == [0, 1, 2, 3]
    assert all(one.first >= (STRIDE - BLOCK) * one.life for one in fetched)
    assert host.sent <= MOST_OVERHEAD * total_bytes(papers)


@pytest.mark.parametrize(
    ("step", "times"),
    [
        ("os.mkdir", 2),
        ("fcntl.flock", 2),
        ("os.link", 1),
        ("os.remove", 1),
    ],
)
async def test_what_is_killed_before_a_step_on_the_disk_is_ended_by_the_next(
    nursery: Nursery, tmp_path: Path, step: str, times: int
) -> None:
    """Nothing stays behind, and nothing that was on the disk is fetched again."""
    (paper,) = papers = invented_papers(1, seed=3, least=1_500_000, most=1_500_001)
    folder = tmp_path / "files"
    async with FileHost.opened(papers) as host:
        life = Life(url=host.url, application_ids=applications(papers), folder=str(folder))
        nursery.start(evolve(life, dies_before=step))
        assert await nursery.wait() == []
        whole_files(folder, papers, [])
        nursery.start(evolve(life, number=host.life))
        (word, _) = await nursery.wait()
    assert whole_files(folder, papers, [word]) == {paper.document_id}
    assert parts_below(folder) == []
    assert host.sent <= times * total_bytes(papers) + 1
