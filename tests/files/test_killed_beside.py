"""Processes that download beside each other, and one whose disk takes no more."""

from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from attrs import evolve

from tests.support.download_worker import Life
from tests.support.files import applications, check_all_there, invented_papers
from tests.support.killed_checks import whole_files
from tests.support.killed_host import FileHost
from tests.support.killed_nursery import Nursery

LONGEST: Final = 50_000


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    """Lend a source of processes that download."""
    async with Nursery() as source:
        yield source


async def test_two_processes_download_the_same_into_the_same_folder(
    nursery: Nursery, tmp_path: Path
) -> None:
    """Both succeed, and each file is put at its place by one of them."""
    papers = invented_papers(100, seed=4, most=200_000)
    folder = tmp_path / "files"
    async with FileHost.opened(papers) as host:
        life = Life(url=host.url, application_ids=applications(papers), folder=str(folder))
        nursery.start(life)
        nursery.start(life)
        words = await nursery.wait()
    assert words.count("over") == 2
    told = [word for word in words if word != "over"]
    check_all_there(folder, papers)
    whole_files(folder, papers, told)
    verdicts = defaultdict(list)
    for word in told:
        verdict, document_id, _ = word.split()
        verdicts[document_id].append(verdict)
    assert len(verdicts) == len(papers)
    assert {tuple(sorted(both)) for both in verdicts.values()} == {("file", "same")}


async def test_a_file_that_the_disk_does_not_take_is_told_and_leaves_nothing(
    nursery: Nursery, tmp_path: Path
) -> None:
    """The others come all the same; once there is room, so does this one."""
    papers = invented_papers(60, seed=6, most=200_000)
    small = [paper for paper in papers if len(paper.content) <= LONGEST]
    folder = tmp_path / "files"
    async with FileHost.opened(papers) as host:
        life = Life(url=host.url, application_ids=applications(papers), folder=str(folder))
        nursery.start(evolve(life, longest_file=LONGEST))
        words = await nursery.wait()
        failed = {word.split(maxsplit=2)[1] for word in words if word.startswith("failed")}
        assert failed == {paper.document_id for paper in papers} - {
            paper.document_id for paper in small
        }
        assert all(word.endswith("file too large") for word in words if word.startswith("failed"))
        check_all_there(folder, small)
        nursery.start(life)
        words = await nursery.wait()
    assert sum(word.startswith("file ") for word in words) == len(failed) > 0
    check_all_there(folder, papers)
