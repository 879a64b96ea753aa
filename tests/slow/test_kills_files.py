"""Processes that download and export are killed: a file at its place is whole, nothing is lost."""

import asyncio
import hashlib
import os
import shutil
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from attrs import define, evolve, field

from income_client import (
    ApplicationRecord,
    DownloadedFile,
    IncomeClient,
    OAuth2ClientCredentials,
    from_json,
)
from income_client.cli import main as command
from income_client.emulator import Emulator, Fault, ServiceRules
from income_client.exporting import to_arrow
from income_client.testing import IncomeService, JumpingClock
from tests.cli.commands import Export
from tests.slow.kills import Life, Workers, read_once, share_of, workers_of
from tests.support import processes
from tests.support.cli import Cli
from tests.support.downloads import documents_of, files_below, mode_of
from tests.support.processes import environment, started
from tests.support.service import until

pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs the extra 'full'")
FILES: Final = "/documents/*"
CONCURRENCY: Final = 8
LONG: Final = 400_000
"""Bytes of a file that is written before all of it has come."""


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
    """Contents of the files to download, by document."""

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
        """Arguments of a process."""
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
    """A file at its final path is whole and never fetched again, and few downloads are wasted."""
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


@pytest.fixture
def export(income_service: IncomeService, tmp_path: Path) -> Export:
    """Exports into a folder of its own."""
    return Export(Cli(tmp_path, income_service))


def make(
    say: Callable[[str], None], target: str, form: str, environment: Mapping[str, str]
) -> None:
    """Run the command, and say its status."""
    os.environ.update(environment)
    say(f"status {_status('export', '--to', target, '--format', form)}")


def prepare() -> None:
    """Import what the command needs."""
    read_once()
    to_arrow(())
    _status("export", "--help")


def _status(*line: str) -> int:
    """Run the command, print nothing, and return its status."""
    sys.argv = ["income-client", *line]
    kept = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    try:
        command()
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        for number, descriptor in zip((1, 2), kept, strict=True):
            os.dup2(descriptor, number)
    return 0


@pytest.mark.timeout(400)  # each operation costs two runs
@pytest.mark.income_service(applications=3)
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
async def test_the_run_after_a_kill_makes_it_whole(
    form: str, tmp_path: Path, income_service: IncomeService, pytestconfig: pytest.Config
) -> None:
    """Killed before any of its operations on files, it ends with 0 the next time.

    The one exception is the very last step, when nothing is left that could say
    what the file is: it is there, and is not overwritten.
    """
    folder, ids = tmp_path / "exports", sorted(income_service.ids)
    target = folder / "all"
    variables = environment(income_service)

    def fresh() -> dict[str, Any]:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return {"target": str(target), "form": form, "environment": variables}

    async with workers_of(make) as workers:
        async for killed in workers.die(share_of(pytestconfig, 0.4), fresh):
            (place,) = killed.said("before ")
            again = await workers.live(target=str(target), form=form, environment=variables)
            is_last = place == f"before rmdir {target}.part"
            assert again.words == [f"status {1 if is_last else 0}"], place
            assert ids_in(target) == ids, place
            assert list(folder.glob("*.part")) == [], place


def ids_in(target: Path) -> list[str]:
    """Return the applications of an export, each as often as it is there."""
    if target.is_file():
        lines = target.read_bytes().splitlines()
        return sorted(from_json(ApplicationRecord, one).application_id for one in lines)
    column = pq.read_table(target / "applications.parquet")["application_id"]
    return sorted(map(str, column.to_pylist()))


@pytest.mark.income_service(applications=500)
def test_kills_lose_and_repeat_nothing(export: Export, income_service: IncomeService) -> None:
    """Killed again and again, it reads what was on its way anew, and a hundred at most."""
    command = ("export", "--to", str(export.target))

    def reads() -> int:
        return income_service.requests.count("get_application")

    def are_kept(count: int) -> bool:
        return reads() > count and bool(export.kept)

    for count in (130, 260, 390):
        income_service.faults.add(Fault("stall", skip=270, times=None, path="*/app-*"))
        with started(*command, env=environment(income_service)) as process:
            processes.until(partial(are_kept, count))
            process.send(signal.SIGKILL)
            process.wait()
        income_service.faults.clear()
        assert export.left == {"all.part"}
    assert export().status == 0
    assert export.ids == sorted(income_service.ids)
    assert export.left == {"all", "all.manifest.json"}
    assert reads() < 500 + 3 * (100 + 3 * 16)


@pytest.mark.income_service(applications=3)
def test_two_at_a_time_are_one_too_many(export: Export, income_service: IncomeService) -> None:
    """The second one says so, and harms nothing."""
    income_service.faults.add(Fault("stall", times=None, path="*/app-*"))
    with started("export", "--to", str(export.target), env=environment(income_service)) as process:
        processes.until(lambda: income_service.requests.count("get_application") > 0)
        second = export()
        assert second.status == 1
        assert f"another export is at work in {export.part}" in second.stderr
        income_service.faults.clear()
        process.send(signal.SIGTERM)
        assert process.wait().status == 143
    assert export().status == 0
    assert export.ids == sorted(income_service.ids)
