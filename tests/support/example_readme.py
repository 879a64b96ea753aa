"""How the examples of the README are run, and what must come of each."""

import contextlib
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from income_client import BasicAuth, DownloadPolicy, IncomeClient
from income_client.emulator import CallbackTarget, Emulator, Fault
from tests.support.callback_processes import free_port
from tests.support.examples import RunExample, loaded, passes, python, started, until

_USER: Final = BasicAuth("service", "invented-password")


async def prints_incomes(service: Emulator, path: Path) -> None:
    """Each line is an application, an applicant, a year and an amount."""
    lines = await python(service, path.parent, path.name)
    assert len(lines) > 5
    for line in lines:
        assert re.fullmatch(r"app-[0-9a-f]{10} applicant\d 20\d\d \d+(\.\d+)?", line)


async def looks_up(service: Emulator, path: Path) -> None:
    """An application is found by its reference; none and failures are one line each."""
    known = service.world.reference_of(7)
    (line,) = await python(service, path.parent, path.name, known)
    assert re.fullmatch(r"[0-9-]{10} [0-9:]{8}\+00:00 (\d+(\.\d+)?|None) \d+", line)
    unknown = await python(service, path.parent, path.name, "LOAN-0")
    assert unknown == ["no application has this reference"]
    service.faults.add(Fault("status", status=403, path="/v1/*"))
    (failed,) = await python(service, path.parent, path.name, known)
    assert failed.startswith("failed: ")
    service.faults.add(Fault("status", status=404, path=f"*/{service.world.ids[7]}", times=None))
    assert await python(service, path.parent, path.name, known) == ["deleted meanwhile"]


async def follows(service: Emulator, path: Path) -> None:
    """It prints every application, and after a stop only those updated since."""
    for expected in (service.world.ids, service.world.ids[:3]):
        process = await started(service, path.parent, path.name)
        assert process.stdout is not None
        lines = [(await process.stdout.readline()).decode() for _ in expected]
        process.terminate()
        rest, complaints = await process.communicate()
        assert (process.returncode, rest, complaints) == (0, b"", b"")
        assert sorted(line.split()[0] for line in lines) == sorted(expected)
        service.advance(60)
        for one in service.world.ids[:3]:
            service.touch(one)
        service.advance(60)


async def wakes_on_callback(service: Emulator, path: Path) -> None:
    """A callback makes it read what has changed; without credentials it gets 401."""
    port = _on_a_free_port(path)
    store = path.parent / "callbacks.db"
    more = {
        "INCOME_CALLBACK_USERNAME": _USER.username,
        "INCOME_CALLBACK_PASSWORD": _USER.password.reveal(),
    }
    process = await started(service, path.parent, path.name, **more)
    try:
        await until(lambda: store.exists() and "list_applications" in names(service))
        service.advance(60)
        service.touch(service.world.ids[0])
        service.advance(60)
        url = f"http://127.0.0.1:{port}/callbacks"
        stranger = CallbackTarget(url, auth=BasicAuth("service", "guess"))
        assert (await service.fire_callback(target=stranger)).attempts == (401,)
        target = CallbackTarget(url, auth=_USER)
        assert (await service.fire_callback(target=target)).attempts == (200,)
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        assert line.startswith(f"{service.world.ids[0]} ")
    finally:
        process.terminate()
        await process.communicate()


def _on_a_free_port(path: Path) -> int:
    port = free_port()
    path.write_text(path.read_text("utf-8").replace("port=9000", f"port={port}"), "utf-8")
    return port


def names(service: Emulator) -> list[str]:
    """Return the calls that the service was asked."""
    return [request.name for request in service.requests]


async def saves_files(service: Emulator, path: Path) -> None:
    """Every file is in the folder; an application that is not there ends the program."""
    ids = service.world.ids[:3]
    policy = DownloadPolicy(
        allowed_hosts=("127.0.0.1",), require_https=False, allow_private_networks=True
    )
    printed = io.StringIO()
    async with IncomeClient(service.url, auth=service.oauth2, downloads=policy) as client:
        for _ in range(2):
            with contextlib.redirect_stdout(printed):
                await loaded(path).save(client, ids)
    lines = printed.getvalue().splitlines()
    folder = path.parent / "files"
    files = sorted(str(file) for file in folder.rglob("*") if file.is_file())
    assert files
    assert sorted(line.split()[0] for line in lines) == sorted(files * 2)
    refused = await python(service, path.parent, path.name, ids[0])
    assert refused
    assert all(" failed: " in line for line in refused)


RUN: Final[Mapping[str, RunExample]] = {
    "follow.py": follows,
    "incomes.py": prints_incomes,
    "lookup.py": looks_up,
    "save_files.py": saves_files,
    "test_decision.py": passes,
    "wake_on_callback.py": wakes_on_callback,
}
