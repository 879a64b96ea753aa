"""How the examples of the README that get files are run, and what must come of each."""

import contextlib
import io
import shlex
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from income_client import IncomeClient, MemoryCheckpointStore
from income_client.emulator import Emulator, Fault
from tests.support.examples import loaded, python


async def saves_pay_slips(service: Emulator, path: Path) -> None:
    """Every pay slip is in the folder and nothing else, also with the change that it tells of."""
    ids = service.world.ids[:3]
    folder = path.parent / "slips"
    async with downloading(service) as client:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            await loaded(path).save(client, [*ids, "nobody"], str(folder))
    files = [str(file) for file in folder.rglob("*") if file.is_file()]
    *lines, missing = sorted(printed.getvalue().splitlines())
    assert missing.startswith("nobody not read: ")
    assert sorted(line.split()[0] for line in lines) == sorted(files)
    assert all("/paystub/" in file for file in files)
    assert files
    _change(path)
    names = [line.split()[0] for line in await python(service, path.parent, path.name, *ids)]
    saved = {Path(name).relative_to(path.parent / "pay-slips") for name in names}
    assert saved == {Path(file).relative_to(folder) for file in files}


def _change(path: Path) -> None:
    """Change an example as the comment in its first lines says."""
    text = path.read_text("utf-8")
    begin, end = text.index("# IncomeClient.from_env("), text.index("\nimport asyncio")
    meant = text[begin:end].replace("#", "").strip()
    changed = text[end:].replace("IncomeClient.from_env()", meant)
    path.write_text(f"from income_client import DownloadPolicy\n{changed}", "utf-8")


async def archives(service: Emulator, path: Path) -> None:
    """The files are in the store; the second time they are there."""
    folder = path.parent / "archive"
    folder.mkdir()
    async with downloading(service) as client:
        for ending in ("uploaded", "was there"):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                await loaded(path).archive(client, service.world.ids[0], folder.as_uri())
            lines = printed.getvalue().splitlines()
            assert lines
            assert all(line.endswith(ending) for line in lines)


async def is_accepted(service: Emulator, path: Path) -> None:
    """A client is made of it, and asks for nothing."""
    await python(service, path.parent, path.name)
    assert service.requests == []


async def downloads_by_command(service: Emulator, folder: Path, command: str) -> list[str]:
    """Run the command as it is shown, on the emulator's files; return the lines it printed."""
    program, *arguments = shlex.split(command)
    assert program == "income-client"
    run = ("-m", "income_client.cli", *arguments, "--quiet", "--allow-host", "127.0.0.1")
    return await python(service, folder, *run)


def downloading(service: Emulator) -> IncomeClient:
    """Return a client that may get the emulator's files."""
    return IncomeClient(service.url, auth=service.oauth2, downloads=service.download_policy)


async def polls_files(service: Emulator, path: Path) -> None:
    """Every file is there before its batch is committed, and one that cannot come is told."""
    folder, store = path.parent / "files", MemoryCheckpointStore()
    service.faults.add(Fault("status", status=400, path="/documents/*"))
    async with downloading(service) as client:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            await loaded(path).follow(client, store, str(folder))
        (line,) = printed.getvalue().splitlines()
        assert line.startswith("to be looked at: app-")
        count = 0
        async for reply in client.fetch_documents(service.world.ids):
            count += len(list(reply.all()))
    assert sum(one.is_file() for one in folder.rglob("*")) == count - 1
    assert (await store.load("default")).version > 0


RUN: Final[Mapping[str, Callable[[Emulator, Path], Awaitable[None]]]] = {
    "archive.py": archives,
    "other_storage.py": is_accepted,
    "pay_slips.py": saves_pay_slips,
    "poll_files.py": polls_files,
}
