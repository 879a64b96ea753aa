"""How the command lines of the README are run, and what must come of each.

The row of a command in `COMMANDS` is called with the emulated service that the
environment leads to, with a folder, and with the line.
"""

import asyncio
import contextlib
import json
import shlex
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

from income_client import DeadLetter, SQLiteCheckpointStore, Window
from income_client.cli.app import command_line
from income_client.emulator import Emulator
from income_client.records.window import EPOCH
from tests.slow import test_nginx, test_uvicorn
from tests.support.callback_processes import free_port
from tests.support.example_workers import relays_by_command
from tests.support.examples import python, variables
from tests.support.pages import commands
from tests.support.processes import COMMAND, ROOT, environment

RunCommand = Callable[[Emulator, Path, str], Awaitable[None]]

_MORE_IDS: Final = ("app-1", "app-2", "app-3")
"""Ids that the README gives to applications of its reader's."""


def with_ids(service: Emulator, line: str) -> str:
    """Return a command line with applications that the service has."""
    for shown, there in zip(_MORE_IDS, service.world.ids, strict=False):
        line = line.replace(shown, there)
    return line


async def runs(service: Emulator, folder: Path, line: str) -> None:
    """A shell understands the line, and the command ends well."""
    line = with_ids(service, line).replace("income-client", shlex.join(COMMAND))
    process = await asyncio.create_subprocess_shell(
        line,
        cwd=folder,
        env=environment(**variables(service), PYTHONPATH=str(ROOT)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()


def run_with(command: str) -> RunCommand:
    """Return the row of a command that a test elsewhere runs, with what it needs around it.

    Args:
        command: the line that is run there.
    """

    async def is_run(_service: Emulator, _folder: Path, line: str) -> None:
        assert line == command

    return is_run


async def _polls(service: Emulator, folder: Path, shown: str) -> None:
    """The command writes each application with its documents, and nothing twice."""
    # With what the text below it names, since a test wants it to end.
    whole = shown if " --once " in shown else shown.replace(" >> ", " --once >> ")
    for _ in range(2):
        await runs(service, folder, whole)
    written = (folder / shown.rpartition(" ")[2]).read_text("utf-8").splitlines()
    records = [json.loads(line) for line in written]
    ids = [record["application"]["application_id"] for record in records]
    assert sorted(ids) == sorted(service.world.ids)
    assert all(record["documents"] for record in records)


async def downloads_by_command(service: Emulator, folder: Path, command: str) -> list[str]:
    """Run the command as it is shown, on the emulator's files; return the lines it printed."""
    program, *arguments = shlex.split(command)
    assert program == "income-client"
    run = ("-m", "income_client.cli", *arguments, "--quiet", "--allow-host", "127.0.0.1")
    return await python(service, folder, *run)


async def _downloads(service: Emulator, folder: Path, line: str) -> None:
    """It writes the paths of pay slips, and a manifest beside them."""
    lines = await downloads_by_command(service, folder, with_ids(service, line))
    assert lines
    assert all("/paystub/" in line for line in lines)
    manifest = (folder / "files" / "manifest.jsonl").read_text("utf-8").splitlines()
    assert len(manifest) == len(lines)


async def _lists_dead_letters(service: Emulator, folder: Path, line: str) -> None:
    """It reads a store that is there, and forgets a dead letter that is there."""
    letter = DeadLetter(
        application_id=service.world.ids[0],
        window=Window(1, 2),
        reason="NotFoundError: 404 Not Found",
        attempts=2,
        first_tried_at=EPOCH,
        last_tried_at=EPOCH,
    )
    store = SQLiteCheckpointStore(folder / "polls.db")
    version = (await store.load("default")).version
    await store.save("default", "{}", version=version, dead_letters=[letter])
    await runs(service, folder, line)
    assert len(await store.dead_letters("default")) == ("--forget" not in line)


async def _sends(_service: Emulator, folder: Path, line: str) -> None:
    """One sends callbacks, one takes them, and one has one sent: the first of each name."""
    assert line == commands(" ".join(line.split()[:2]))[0]
    await _send_by_commands(folder)


async def _send_by_commands(folder: Path) -> None:
    """One command takes the callback that another has the third send, with nothing set."""
    user = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    emulate, listen, trigger = (
        commands(f"income-client {name}")[0] for name in ("emulate", "listen", "trigger")
    )
    async with _command(emulate, folder, **user) as emulating:
        await _printed(emulating.stdout, "# Its files")
        async with _command(f"{listen} --port {free_port()}", folder, **user) as listening:
            await _printed(emulating.stderr, "callbacks go to")
            async with _command(trigger, folder, **user) as triggering:
                line, complaints = await triggering.communicate()
                assert (triggering.returncode, complaints) == (0, b"")
            assert listening.stdout is not None
            received = json.loads(await listening.stdout.readline())
    sent = json.loads(line)
    assert sent["attempts"] == [200]
    assert (sent["application_id"], sent["event_type"]) == (
        received["application_id"], received["event_type"],
    )  # fmt: skip


@contextlib.asynccontextmanager
async def _command(
    line: str, folder: Path, **more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command beside what happens inside; it is killed at the end unless it has ended."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *line.split()[1:],
        cwd=folder,
        env=environment(**more, PYTHONUNBUFFERED="1", PYTHONPATH=str(ROOT)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def _printed(printed: asyncio.StreamReader | None, text: str) -> None:
    """Wait for a line that a command prints."""
    assert printed is not None
    while text not in (line := (await printed.readline()).decode()):
        assert line


async def _is_read_by_the_workers(_service: Emulator, _folder: Path, line: str) -> None:
    """The examples of workers make their streams as these lines say."""
    assert line in commands("nats")


async def _is_accepted(_service: Emulator, _folder: Path, line: str) -> None:
    """The command has these options; the example that it is shown with is run with callbacks."""
    command_line().parse_args(line.split()[1:], print_error=False, exit_on_error=False)


async def _adds_a_fault(service: Emulator, folder: Path, line: str) -> None:
    """The emulator that runs takes it, with the credentials that it prints."""
    before = len(service.faults)
    await runs(service, folder, line)
    assert len(service.faults) == before + 1


async def _audits(service: Emulator, folder: Path, shown: str) -> None:
    """All is held that is listed."""
    lines = [
        f"{one},{EPOCH + timedelta(seconds=service.world.updated_at(one))}"
        for one in service.world.ids
    ]
    (folder / "held.csv").write_text("\n".join(["application_id,updated_at", *lines]))
    await runs(service, folder, shown)


COMMANDS: Final[Mapping[str, RunCommand]] = {
    "curl": _adds_a_fault,
    "income-client application app-1": runs,
    "income-client applications": runs,
    "income-client audit": _audits,
    "income-client dead-letters": _lists_dead_letters,
    "income-client doctor": runs,
    "income-client download app-1": _downloads,
    "income-client emulate": _sends,
    "income-client emulate --callbacks": _is_accepted,
    "income-client export": runs,
    "income-client find": runs,
    "income-client get": runs,
    "income-client listen": _sends,
    "income-client poll": _polls,
    "income-client relay": relays_by_command,
    "income-client token": runs,
    "income-client trigger": _sends,
    "nats kv add": _is_read_by_the_workers,
    "nats stream add": _is_read_by_the_workers,
    "split -l": runs,
    "uvicorn app:app --host": run_with(test_nginx.COMMAND),
    "uvicorn app:app --port": run_with(test_uvicorn.COMMAND),
}
