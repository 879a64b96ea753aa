"""Processes that download and are killed: a file at its place is whole, the rest begins anew."""

import asyncio
import hashlib
import shutil
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from attrs import define, evolve, field

from income_client import DownloadedFile, IncomeClient, OAuth2ClientCredentials
from income_client.emulator import Emulator, Fault, ServiceRules
from income_client.testing import JumpingClock
from tests.support.downloads import documents_of, files_below, mode_of
from tests.support.kills import Life, Workers, read_once, share_of, workers_of
from tests.support.service import until

FILES: Final = "/documents/*"
CONCURRENCY: Final = 8
LONG: Final = 400_000
"""Bytes of a file that is written before all of it has come."""
prepare = read_once


def download(
    say: Callable[[str], None],
    url: str,
    credentials: Sequence[str],
    folder: str,
    ids: Sequence[str],
    most: int,
) -> None:
    """Download so many documents, and say what became of each."""

    async def run() -> None:
        auth = OAuth2ClientCredentials(*credentials)
        policy = Emulator(1).download_policy
        async with IncomeClient(url, auth=auth, downloads=policy, clock=JumpingClock()) as client:
            documents = (await documents_of(client, ids))[:most]
            async for file in client.download_all(
                documents, folder, CONCURRENCY, names="{document_id}", on_error="yield"
            ):
                if isinstance(file, DownloadedFile):
                    verdict = "same" if file.was_there else "file"
                    say(f"{verdict} {file.document_id} {file.sha256}")
                else:
                    say(f"failed {file.document_id} {file.error}")

    asyncio.run(run())


@define
class Scene:
    """A service, a folder, and processes that download from the one into the other."""

    service: Emulator
    workers: Workers
    folder: Path
    contents: dict[str, bytes] = field(factory=dict)
    """Of the files that are downloaded, by document."""

    async def look_up(self, most: int | None = None) -> None:
        """Choose documents, so many at the most."""
        async with IncomeClient(self.service.url, auth=self.service.oauth2) as client:
            found = (await documents_of(client, self.service.world.ids))[:most]
        ids = [one.document_id for one in found]
        self.contents = {one: self.service.content_of(one) for one in ids}

    def begin_anew(self) -> None:
        """Forget what was downloaded."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for life in self.workers.lives:
            life.words.clear()

    @property
    def facts(self) -> dict[str, Any]:
        """What a process is started with."""
        auth = self.service.oauth2
        return {
            "url": self.service.url,
            "credentials": [auth.client_id, auth.client_secret.reveal()],
            "folder": str(self.folder),
            "ids": self.service.world.ids,
            "most": len(self.contents),
        }

    def start(self) -> Life:
        return self.workers.start(**self.facts)

    async def finish(self) -> None:
        await self.workers.live(**self.facts)

    def temporary(self) -> set[Path]:
        """Return what is on its way, or was left behind."""
        return set(self.folder.rglob(".*.part"))

    def check(self) -> set[str]:
        """Check that each file is whole and private, and as reported; return the documents."""
        there = files_below(self.folder)
        assert {mode_of(self.folder / name) for name in there} <= {0o600}
        whole = {name: there[name] for name in there if not name.endswith(".part")}
        assert [name for name in whole if whole[name] != self.contents[name]] == []
        for life in self.workers.lives:
            for word in life.words:
                if word.startswith(("file ", "same ")):
                    _, one, sha256 = word.split()
                    assert hashlib.sha256(whole[one]).hexdigest() == sha256
        return set(whole)

    def check_over(self) -> None:
        """Check that everything is there, and nothing else."""
        assert self.check() == set(self.contents)
        assert self.temporary() == set()

    def fetched(self) -> Counter[str]:
        """Return how often each document was fetched since the last call, from its beginning."""
        found = Counter[str]()
        for request in self.service.requests:
            wanted = request.headers.get("range", "bytes=0-")
            # By its first byte alone, a file that is there is compared.
            if request.name == "file" and wanted != "bytes=0-0":
                assert wanted == "bytes=0-", "what a killed process left was resumed"
                found[request.path.split("/")[2]] += 1
        self.service.requests.clear()
        return found


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """Lend a service with a hundred files or so of 60 kB."""
    async with (
        Emulator(12, rules=ServiceRules(file_bytes=60_000)) as service,
        workers_of(download) as workers,
    ):
        found = Scene(service, workers, tmp_path / "files")
        await found.look_up()
        yield found


async def test_downloads_that_are_killed_again_and_again_come_to_their_end(
    scene: Scene, pytestconfig: pytest.Config
) -> None:
    """What is at its place is whole and never fetched again, and few files are begun in vain."""
    chance, whole = Random(5), set[str]()
    for _ in range(share_of(pytestconfig, 0.3)):
        some = chance.randrange(4)
        left = chance.randrange(1, 60_000)
        scene.service.faults.clear()
        scene.service.faults.add(Fault("stall", path=FILES, keep=left, skip=some, times=None))
        life = scene.start()
        for _ in range(min(chance.randint(0, some), len(scene.contents) - len(whole))):
            await scene.workers.word()
        await asyncio.sleep(chance.uniform(0, 0.1))
        await scene.workers.kill(life)
        now_whole = scene.check()
        assert len(scene.temporary()) <= CONCURRENCY
        fetched = scene.fetched()
        assert not whole & fetched.keys()
        assert len(fetched.keys() - now_whole) <= CONCURRENCY
        assert set(fetched.values()) <= {1}
        whole = now_whole
        if len(whole) > len(scene.contents) / 2:
            scene.begin_anew()
            whole = set()
    scene.service.faults.clear()
    await scene.finish()
    scene.check_over()


async def test_files_of_a_process_at_work_are_left_alone_until_it_is_killed(scene: Scene) -> None:
    """Another one completes the same beside it; once it is dead, the next begins anew."""
    scene.service.rules = evolve(scene.service.rules, file_bytes=LONG)
    await scene.look_up(2 * CONCURRENCY)
    scene.service.faults.add(Fault("stall", path=FILES, keep=LONG - 1, times=CONCURRENCY))
    life = scene.start()
    await until(lambda: len(scene.temporary()) == CONCURRENCY)
    at_work = scene.temporary()
    await scene.finish()
    assert scene.check() == set(scene.contents)
    await scene.workers.kill(life)
    assert scene.temporary() == at_work
    for name in scene.contents:
        (scene.folder / name).unlink()
    for one in scene.workers.lives:
        one.words.clear()
    await scene.finish()
    scene.check_over()


async def test_a_process_killed_before_any_operation_on_files_is_succeeded(
    scene: Scene, pytestconfig: pytest.Config
) -> None:
    """The next one completes its file, and nothing stays behind."""
    await scene.look_up(1)

    def fresh() -> dict[str, Any]:
        scene.begin_anew()
        return scene.facts

    async for _ in scene.workers.die(share_of(pytestconfig, 0.3), fresh):
        scene.check()
        await scene.finish()
        scene.check_over()


async def test_two_processes_download_the_same_into_the_same_folder(scene: Scene) -> None:
    """Both succeed, and each file is put at its place by one of them."""
    lives = [scene.start(), scene.start()]
    for life in lives:
        await scene.workers.wait(life)
        assert life.code == 0
    scene.check_over()
    verdicts = defaultdict(list)
    for word in (word for life in lives for word in life.words):
        verdict, one, _ = word.split()
        verdicts[one].append(verdict)
    assert {tuple(sorted(both)) for both in verdicts.values()} == {("file", "same")}
