"""How the examples of the README and the guide are run, and what must come of each.

A poller's pauses are real here and long. A process that is started again polls at once, so each of
these lives is one poll.
"""

import asyncio
import contextlib
import io
import itertools
import json
import re
import shlex
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from income_client import (
    BasicAuth,
    DeadLetter,
    DownloadPolicy,
    IncomeClient,
    SQLiteCheckpointStore,
    Window,
    errors,
    to_json,
)
from income_client.emulator import CallbackTarget, Emulator, Fault
from income_client.records.window import EPOCH
from income_client.testing import check_checkpoint_store, make_record
from tests.support.callback_processes import free_port
from tests.support.examples import (
    RunExample,
    asgi,
    loaded,
    logged,
    passes,
    python,
    reads,
    served,
    started,
    until,
)

_USER: Final = BasicAuth("service", "invented-password")


async def prints_incomes(service: Emulator, path: Path) -> None:
    """Each line is an application, an applicant, a year and an amount."""
    lines = await python(service, path.parent, path.name)
    assert len(lines) > 5
    for line in lines:
        assert re.fullmatch(r"app-[0-9a-f]{10} applicant\d 20\d\d \d+(\.\d+)?", line)


async def reads_rotated_secrets(service: Emulator, path: Path) -> None:
    """The credentials are those of the file beside it."""
    kept = {"id": service.oauth2.client_id, "secret": service.oauth2.client_secret.reveal()}
    (path.parent / "credentials.json").write_text(json.dumps(kept))
    (line,) = await python(service, path.parent, path.name)
    assert line in service.world.ids


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


_LINE: Final = re.compile(r"(app-[0-9a-f]{10}) [0-9-]{10} [0-9:]{8}\+00:00")


@contextlib.asynccontextmanager
async def alive(
    service: Emulator, path: Path, **more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run an example beside what happens inside; it is killed at the end unless it ended."""
    process = await started(service, path.parent, path.name, **more)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def ended(process: asyncio.subprocess.Process) -> list[str]:
    """Have a process end as a service manager does, and return the rest of its lines."""
    process.terminate()
    output, complaints = await process.communicate()
    assert (process.returncode, complaints.decode()) == (0, "")
    return output.decode().splitlines()


async def lines_of(process: asyncio.subprocess.Process, count: int) -> list[str]:
    """Return the next lines that it prints."""
    assert process.stdout is not None
    return [(await process.stdout.readline()).decode().rstrip("\n") for _ in range(count)]


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Return what a query finds in an SQLite file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


async def begun(store: Path) -> None:
    """Wait until a poller that begins with the present has stored which one that is."""

    def has_begun() -> bool:
        with contextlib.suppress(sqlite3.OperationalError):  # the file is there before its tables
            return store.exists() and bool(rows(store, "SELECT * FROM checkpoints"))
        return False

    await until(has_begun)


def updated(service: Emulator, numbers: range) -> list[str]:
    """Update applications after what was polled before, and return their ids in order."""
    service.advance(60)
    for number in numbers:
        service.touch(service.world.ids[number])
    service.advance(60)
    return sorted(service.world.ids[number] for number in numbers)


async def polls_once(service: Emulator, path: Path) -> None:
    """Each run prints what changed since the last; after a restored backup, since the backup."""
    store, backup = path.parent / "nightly.db", path.parent / "backup.db"
    everything = await python(service, path.parent, path.name)
    assert ids_in(everything) == sorted(service.world.ids)
    assert await python(service, path.parent, path.name) == []
    shutil.copy(store, backup)
    first = updated(service, range(3, 6))
    assert ids_in(await python(service, path.parent, path.name)) == first
    second = updated(service, range(6, 8))
    shutil.copy(backup, store)
    again = await python(service, path.parent, path.name)
    assert ids_in(again) == sorted(first + second)


def ids_in(lines: Iterable[str]) -> list[str]:
    """Return the ids in lines that hold an id and a time each."""
    matches = [_LINE.fullmatch(line) for line in lines]
    assert all(matches), lines
    return sorted(match[1] for match in matches if match)


async def forgets(service: Emulator, path: Path) -> None:
    """What is gone is forgotten; what fails otherwise, and a second, stay dead letters."""
    store, broken = SQLiteCheckpointStore(path.parent / "nightly.db"), service.world.ids[0]
    fault = Fault("status", status=403, path=f"/v1/income/applications/{broken}", times=None)
    service.faults.add(fault)
    letters = [
        DeadLetter(
            application_id=application_id,
            window=Window(1, 2),
            reason="not read",
            attempts=2,
            first_tried_at=EPOCH,
            last_tried_at=EPOCH,
        )
        for application_id in ("app-gone", broken, None)
    ]
    await store.save("default", "{}", version=0, dead_letters=letters)
    assert await python(service, path.parent, path.name) == ["app-gone"]
    assert {letter.application_id for letter in await store.dead_letters("default")} == {
        broken,
        None,
    }


_TABLES: Final = "income-client export --to tables --format parquet"
_FIELDS: Final = {
    "missing",
    "next_updated_after",
    "records",
    "rows",
    "saturated_seconds",
    "updated_after",
    "updated_before",
    "whole",
}
"""What the page says of the manifest."""


async def exports_by_command(service: Emulator, folder: Path, command: str) -> list[str]:
    """Run the command as it is shown, and return the lines that it printed."""
    program, *arguments = shlex.split(command)
    assert program == "income-client"
    # Its summary goes to standard error, which has to stay empty here.
    quiet = (
        "import contextlib, io, sys; from income_client.cli import main\n"
        "with contextlib.redirect_stderr(io.StringIO()): main()"
    )
    return await python(service, folder, "-c", quiet, *arguments)


async def averages_by_state(service: Emulator, path: Path) -> None:
    """There is a row for each state in which an applicant lives, and each year."""
    await exports_by_command(service, path.parent, _TABLES)
    manifest = json.loads((path.parent / "tables" / "manifest.json").read_text("utf-8"))
    assert manifest.keys() >= _FIELDS
    printed = [line.split() for line in await python(service, path.parent, path.name)]
    assert {(state, int(year)) for state, year, *_ in printed} == set(_places(service))
    assert all(int(words[2]) > 0 and float(words[4]) > 0 for words in printed)


def _places(service: Emulator) -> list[tuple[str, int]]:
    """Return the state and the year of each calculated income."""
    applications: list[Any] = [served(service, one) for one in service.world.ids]
    return [
        (entry["address"]["state"], income["year"])
        for application in applications
        for slot, calculation in application["income_calculations"].items()
        for income in calculation["incomes"]
        if income["income_sources"]
        for entry in application["applicants"][slot]["address_info"]
        if entry["is_current"]
    ]


async def prints_forms(service: Emulator, path: Path) -> None:
    """Only forms of the type that was registered are printed, with their year."""
    data = {"employer_name": "Acme Tool Works", "year": 2025, "wages": Decimal("1000.50")}
    record = make_record()
    application, documents = (
        json.loads(to_json(one), parse_float=Decimal)
        for one in (record.application, record.documents)
    )
    (slip,) = documents["documents"]["paystub"]
    form = {**slip, "document_id": "doc-form", "extracted_data": data}
    documents["documents"]["invented_form"] = [form]
    record_id = service.world.add(application, documents)
    lines = await python(service, path.parent, path.name, record_id, *service.world.ids[:5])
    assert lines == ["invented_form 2025"]


async def keeps_checkpoints(service: Emulator, path: Path) -> None:
    """It does what the package's own stores do, and a poller resumes with it."""
    module = loaded(path)
    numbers = itertools.count()
    await check_checkpoint_store(lambda: module.JsonStore(path.parent / f"{next(numbers)}.json"))
    store = module.JsonStore(path.parent / "polls.json")
    async with IncomeClient(service.url, auth=service.oauth2) as client:
        for expected in (len(service.world.ids), 0):
            poller = client.poll(store, start="1970-01-01", settle=0, documents=False, once=True)
            assert len([record async for record in poller]) == expected


async def checks_tokens(service: Emulator, path: Path) -> None:
    """A callback with the token is accepted, one with another is refused."""
    content = {
        "event_type": "income_calculation",
        "application_id": service.world.ids[0],
        "application_reference_id": "LOAN-00000001",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALLBACK_TOKEN", "invented-token")
        async with TestServer(loaded(path).app) as server, ClientSession() as session:
            for token, status in (("invented-token", 200), ("guess", 401)):
                async with session.post(
                    server.make_url("/callbacks"),
                    data=json.dumps(content),
                    headers={
                        "Authorization": f"Bearer {token}",
                        "Content-Type": "application/json",
                    },
                ) as reply:
                    assert reply.status == status, await reply.text()


async def looks_up_waiting(service: Emulator, path: Path) -> None:
    """It reads without an event loop of its caller's, and requests one token for all calls."""
    ids = service.world.ids[:3]
    *lines, count = await python(service, path.parent, path.name, *ids, "app-gone")
    assert [line.split()[0] for line in lines] == [*ids, "app-gone"]
    assert re.fullmatch(r"[1-9]\d* updated since June", count)
    assert [request.name for request in service.requests].count("token") == 1


_DJANGO: Final = """
import sys
import django
from django.conf import settings
settings.configure(ROOT_URLCONF="django_views", ALLOWED_HOSTS=["*"], SECRET_KEY="x", USE_TZ=True)
django.setup()
from django.test import Client
browser = Client(raise_request_exception=False)
for address in sys.argv[1:]:
    answer = browser.get(f"/applications/{address}")
    print(answer.status_code, answer.headers["Content-Type"])
"""


async def serves_django(service: Emulator, path: Path) -> None:
    """All requests share one client, which ends with the process."""
    known, other = service.world.ids[:2]
    lines = await python(service, path.parent, "-c", _DJANGO, known, "app-gone", other)
    assert lines == ["200 application/json", "404 text/html; charset=utf-8", "200 application/json"]
    assert [request.name for request in service.requests].count("token") == 1


_CELERY: Final = """
import celery_tasks
folders = dict.fromkeys(("data_folder_in", "data_folder_out"), "queue")
celery_tasks.app.conf.update(
    broker_transport_options={**folders, "control_folder": "control"},
    worker_enable_remote_control=False,
)
app = celery_tasks.app
"""


async def works_for_celery(service: Emulator, path: Path) -> None:
    """Two forked workers read, each with a client of its own, and end when they are told to."""
    folder, broker, ids = path.parent, {"BROKER": "filesystem://"}, service.world.ids[:6]
    (folder / "queue").mkdir()
    (folder / "worker.py").write_text(_CELERY, "utf-8")
    options = ("--concurrency=2", "--without-gossip", "--without-mingle", "--without-heartbeat")
    # Celery warns of root.
    command = ("-W", "default", "-m", "celery", "-A", "worker", "worker", *options)
    working = await started(service, folder, *command, **broker)
    try:
        send = "import sys, worker\nfor one in sys.argv[1:]: worker.celery_tasks.read.delay(one)"
        sending = await started(service, folder, "-c", send, *ids, **broker)
        assert (await sending.communicate())[1] == b""
        await until(lambda: reads(service) == len(ids))
    finally:
        working.terminate()
        shown = b"".join(await working.communicate()).decode()
    assert working.returncode == 0, shown
    assert sorted(re.findall(r"app-[0-9a-f]{10}", shown)) == sorted(ids)
    assert "Traceback" not in shown
    assert 1 <= [request.name for request in service.requests].count("token") <= 2


async def serves_and_polls(service: Emulator, path: Path) -> None:
    """It reads, polls and takes callbacks from start to end, and continues where it stopped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INCOME_CALLBACK_PASSWORD", "invented")
        app = loaded(path).app
    state = app.state
    with logged("web_backend") as lines:
        async with app.router.lifespan_context(app):
            await until(lambda: state.poller.status.polls == 1)
            await _wakes(app)
            await _answers(service, app)
            shown = json.loads((await asgi(app, "/health")).body)
            assert shown["failures"] == 0
            assert 5 <= shown["lag"] < 30
        assert state.polling.done()
        with pytest.raises(errors.ClientClosedError):
            await state.client.get_application(service.world.ids[0])
        lines.clear()
        service.advance(60)
        service.touch(service.world.ids[3])
        service.advance(60)
        async with app.router.lifespan_context(app):
            await until(lambda: state.poller.status.records == 1)
        assert lines == [f"{service.world.ids[3]} was updated"]
    await _ends_when_it_is_refused(service, app)


async def _wakes(app: Any) -> None:
    """A callback with the right password starts a poll at once, and no other does."""
    right, wrong = (
        BasicAuth("service", password).authorization().reveal() for password in ("invented", "x")
    )
    polls = app.state.poller.status.polls
    for authorization, status in ((wrong, 401), (right, 200)):
        headers = [(b"authorization", authorization.encode())]
        answer = await asgi(app, "/callbacks", method="POST", headers=headers)
        assert answer.status == status
    await until(lambda: app.state.poller.status.polls == polls + 1)


async def _answers(service: Emulator, app: Any) -> None:
    """An application is the service's own JSON, and each error has its status."""
    one = f"/applications/{service.world.ids[0]}"
    found = await asgi(app, one)
    assert (found.status, found.headers["content-type"]) == (200, "application/json")
    assert json.loads(found.body)["application_id"] == service.world.ids[0]
    for unknown in ("no-such-application", "a%07b"):
        assert (await asgi(app, f"/applications/{unknown}")).status == 404
    service.faults.add(
        Fault("status", status=403, path="/v1/*"),
        Fault("status", status=429, headers={"Retry-After": "120"}, path="/v1/*"),
    )
    with logged("web_backend") as lines:
        assert (await asgi(app, one)).status == 502
    assert [line.partition(":")[0] for line in lines] == ["PermissionDeniedError"]
    busy = await asgi(app, one)
    assert (busy.status, busy.headers["retry-after"]) == (503, "120")


async def _ends_when_it_is_refused(service: Emulator, app: Any) -> None:
    """Where credentials are rejected at the start, polling ends and the health check says so."""
    service.faults.add(Fault("status", status=401, path="/v1/*", times=None))
    with logged("web_backend") as lines:
        async with app.router.lifespan_context(app):
            await until(app.state.polling.done)
            assert (await asgi(app, "/health")).status == 503
    assert lines == ["polling has ended"]


async def audits(service: Emulator, path: Path) -> None:
    """What is missing and stale is read again, and the figures are those of all findings."""
    service.advance(100)
    world = service.world
    gone, stale, *held = world.ids
    with contextlib.closing(sqlite3.connect(path.parent / "incomes.db")) as database, database:
        database.execute("CREATE TABLE incomes (application_id, updated_at)")
        rows = [(one, str(EPOCH + timedelta(seconds=world.updated_at(one)))) for one in held]
        rows += [(stale, "2020-01-31 12:00:00"), ("app-deleted", "2026-05-01 12:00:00")]
        database.executemany("INSERT INTO incomes VALUES (?, ?)", rows)
    again = await python(service, path.parent, path.name)
    assert sorted(again) == sorted([gone, stale])
    shown = (path.parent / "income_audit.prom").read_text()
    figures = dict(re.findall(r'^income_audit_drift{kind="(\w+)"} ([\d.]+)$', shown, re.MULTILINE))
    assert figures == {"missing": "1.0", "stale": "1.0", "unlisted": "1.0"}
    assert "\nincome_audit_undecided 0.0\n" in shown


async def measures(service: Emulator, path: Path) -> None:
    """A thread of its own shows Prometheus what the events have set."""
    async with alive(service, path, PORT=str(free_port())):
        await begun(path.parent / "measured.db")
    new, port = updated(service, range(3, 6)), free_port()
    async with alive(service, path, PORT=str(port)) as process, ClientSession() as session:
        assert sorted(await lines_of(process, 3)) == new
        shown = ""
        async with asyncio.timeout(30):
            while "income_polls_total 1.0" not in shown:
                await asyncio.sleep(0.01)
                async with session.get(f"http://127.0.0.1:{port}/metrics") as reply:
                    shown = await reply.text()
        figures = dict(re.findall(r"^(income_\w+) ([\d.e+]+)$", shown, re.MULTILINE))
    assert float(figures["income_poll_lag_seconds"]) >= 5
    assert float(figures["income_poll_failures_total"]) == 0
    assert float(figures["income_dead_letters_total"]) == 0


async def is_loaded(_service: Emulator, path: Path) -> None:
    """The one behind nginx is run by the tests of nginx; here it is only loaded."""
    assert loaded(path).app


RUN: Final[Mapping[str, RunExample]] = {
    "callbacks_nginx.py": is_loaded,
    "callbacks_opaque.py": checks_tokens,
    "celery_tasks.py": works_for_celery,
    "daily_audit.py": audits,
    "django_views.py": serves_django,
    "follow.py": follows,
    "forget_deleted.py": forgets,
    "incomes.py": prints_incomes,
    "incomes_by_state.py": averages_by_state,
    "invented_form.py": prints_forms,
    "json_store.py": keeps_checkpoints,
    "lookup.py": looks_up,
    "lookup_waiting.py": looks_up_waiting,
    "measured_worker.py": measures,
    "nightly.py": polls_once,
    "rotated_secret.py": reads_rotated_secrets,
    "save_files.py": saves_files,
    "test_decision.py": passes,
    "test_elsewhere.py": passes,
    "test_updates.py": passes,
    "wake_on_callback.py": wakes_on_callback,
    "web_backend.py": serves_and_polls,
}
