"""Runs of the examples of the README and the guide, and checks of their results.

What the calls in them do is held by the tests of their subjects; here each program does its work
once. A poller's pauses are real here and long. A process that is started again polls at once, so
each of these lives is one poll.
"""

import asyncio
import contextlib
import io
import itertools
import json
import re
import shutil
import sqlite3
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final

import duckdb
import httpx
import pyarrow.parquet as pq
import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer
from attrs import evolve
from obstore.store import LocalStore

from income_client import (
    BasicAuth,
    IncomeClient,
    SQLiteCheckpointStore,
    to_json,
)
from income_client.emulator import CallbackTarget, Emulator, Fault
from income_client.records.window import EPOCH
from income_client.testing import check_checkpoint_store, make_record
from tests.slow.callback_processes import free_port
from tests.slow.examples import (
    RunExample,
    alive,
    asked,
    leave_letters,
    loaded,
    printed,
    python,
    started,
    updated,
)
from tests.support.downloads import documents_of, files_below
from tests.support.pages import EXAMPLES
from tests.support.processes import eventually

_ID: Final = "app-[0-9a-f]{10}"
_TIME: Final = r"[0-9-]{10} [0-9:]{8}\+00:00"
_USER: Final = BasicAuth("service", "invented-password")


async def prints_incomes(service: Emulator, path: Path) -> None:
    """Each line is an application, an applicant, a year and an amount."""
    lines = await python(service, path.parent, path.name)
    assert len(lines) > 5
    for line in lines:
        assert re.fullmatch(rf"{_ID} applicant\d 20\d\d \d+(\.\d+)?", line)


async def reads_rotated_secrets(service: Emulator, path: Path) -> None:
    """The credentials are those of the file beside it."""
    kept = {"id": service.oauth2.client_id, "secret": service.oauth2.client_secret.reveal()}
    (path.parent / "credentials.json").write_text(json.dumps(kept))
    (line,) = await python(service, path.parent, path.name)
    assert line in service.world.ids


async def lends_a_session(service: Emulator, path: Path) -> None:
    """The example prints the time of its only connection, and the service's time."""
    connected, now = await python(service, path.parent, path.name)
    assert re.fullmatch(r"connected in \d\.\d{3} s", connected)
    assert re.fullmatch(_TIME, now)
    assert {request.headers["user-agent"] for request in service.requests} == {"lender/1.0"}


async def looks_up(service: Emulator, path: Path) -> None:
    """An application is found by its reference; none and failures are one line each."""
    known = service.world.reference_of(7)
    (line,) = await python(service, path.parent, path.name, known)
    assert re.fullmatch(rf"{_TIME} (\d+(\.\d+)?|None) \d+", line)
    unknown = await python(service, path.parent, path.name, "LOAN-0")
    assert unknown == ["no application has this reference"]
    service.faults.add(Fault("status", status=403, path="/v1/*"))
    (failed,) = await python(service, path.parent, path.name, known)
    assert failed.startswith("failed: ")


async def looks_up_waiting(service: Emulator, path: Path) -> None:
    """The example reads without an event loop of its own, and requests one token in all."""
    ids = [*service.world.ids[:3], "app-gone"]
    *lines, count = await python(service, path.parent, path.name, *ids)
    assert [line.split()[0] for line in lines] == ids
    assert re.fullmatch(r"[1-9]\d* updated since June", count)
    assert len(asked(service, "token")) == 1


async def follows(service: Emulator, path: Path) -> None:
    """The example prints every application, and after a stop only those updated since."""
    wanted = set(service.world.ids)
    for _ in range(2):
        service.requests.clear()
        async with alive(service, path.parent, path.name) as process:
            await printed(process.stdout, wanted)
        assert process.returncode == 0
        assert set(asked(service)) == wanted
        wanted = updated(service, range(3))


async def wakes_on_callback(service: Emulator, path: Path) -> None:
    """A callback makes it read what has changed; without credentials it gets 401."""
    port, store = _on_a_free_port(path), path.parent / "callbacks.db"
    more = {
        "INCOME_CALLBACK_USERNAME": _USER.username,
        "INCOME_CALLBACK_PASSWORD": _USER.password.reveal(),
    }
    async with alive(service, path.parent, path.name, **more) as process:
        await eventually(lambda: store.exists() and bool(asked(service, "list_applications")))
        new = updated(service, range(1))
        for auth, status in ((BasicAuth("service", "guess"), 401), (_USER, 200)):
            target = CallbackTarget(f"http://127.0.0.1:{port}/callbacks", auth=auth)
            assert (await service.fire_callback(target=target)).attempts == (status,)
        await printed(process.stdout, new)


def _on_a_free_port(path: Path) -> int:
    port = free_port()
    path.write_text(path.read_text("utf-8").replace("port=9000", f"port={port}"), "utf-8")
    return port


async def saves_files(service: Emulator, path: Path) -> None:
    """Every file is in the folder; one from a host that is not allowed is a line."""
    ids, lines = service.world.ids[:3], io.StringIO()
    policy = service.download_policy
    async with IncomeClient(service.url, auth=service.oauth2, downloads=policy) as client:
        with contextlib.redirect_stdout(lines):
            await loaded(path).save(client, ids)
    files = sorted(str(file) for file in (path.parent / "files").rglob("*") if file.is_file())
    assert files
    assert sorted(line.split()[0] for line in lines.getvalue().splitlines()) == files
    refused = await python(service, path.parent, path.name, ids[0])
    assert refused
    assert all(" failed: " in line for line in refused)


async def syncs_files(service: Emulator, path: Path) -> None:
    """A file that is gone for ever holds up no other, and a changed one is replaced."""
    example, folder, lines = loaded(path), path.parent / "files", io.StringIO()
    store = SQLiteCheckpointStore(path.parent / "files.db")
    policy = service.download_policy
    async with IncomeClient(service.url, auth=service.oauth2, downloads=policy) as client:

        async def follow_once() -> list[str]:
            lines.truncate(0)
            with contextlib.redirect_stdout(lines):
                poller = client.poll(store, start="2020-01-01", settle=0, once=True)
                await example.follow(client, poller)
            return lines.getvalue().strip("\0").splitlines()

        lost, again, *_ = await documents_of(client, service.world.ids)
        service.faults.add(Fault("status", status=410, path=f"*{lost.document_id}*", times=None))
        service.faults.add(Fault("status", status=503, path=f"*{again.document_id}*", times=4))
        printed = await follow_once()
        assert any(line.startswith("the batch comes again") for line in printed)
        refused = {line for line in printed if line.startswith("not saved: ")}
        assert {lost.document_id in line for line in refused} == {True}
        saved = files_below(folder)
        assert {lost.document_id in name for name in saved} == {False}
        for name in saved:
            (folder / name).write_bytes(b"an older version")
        changed = updated(service, range(2))
        await follow_once()
        for name, content in files_below(folder).items():
            assert (content == b"an older version") == (name.split("/")[0] not in changed)


async def stores_files(service: Emulator, path: Path) -> None:
    """Each file becomes an object of a store; the tests of S3 have failures and hostile names."""
    ids, policy, bucket = service.world.ids[:3], service.download_policy, path.parent / "bucket"
    store = LocalStore(bucket, mkdir=True)
    async with IncomeClient(service.url, auth=service.oauth2, downloads=policy) as client:
        documents = await documents_of(client, ids)
        await loaded(path).store_files(client, ids, store)
    contents = sorted(service.content_of(document.document_id) for document in documents)
    assert sorted(files_below(bucket).values()) == contents
    assert files_below(path.parent / "outbox") == {}


async def polls_once(service: Emulator, path: Path) -> None:
    """Each run prints what changed since the last."""
    wanted = set(service.world.ids)
    for _ in range(2):
        lines = await python(service, path.parent, path.name)
        assert all(re.fullmatch(f"{_ID} {_TIME}", line) for line in lines)
        assert sorted(line.split()[0] for line in lines) == sorted(wanted)
        wanted = updated(service, range(3, 6))


async def forgets(service: Emulator, path: Path) -> None:
    """The example forgets a deleted application; another one and a second stay dead letters."""
    store, there = SQLiteCheckpointStore(path.parent / "nightly.db"), service.world.ids[0]
    await leave_letters(path.parent / "nightly.db", "app-gone", there, None)
    assert await python(service, path.parent, path.name) == ["app-gone"]
    left = {letter.application_id for letter in await store.dead_letters("default")}
    assert left == {there, None}


async def leaves_personal_data_out(service: Emulator, path: Path) -> None:
    """Of an exported table the columns without personal data stay, and those that are kept."""
    export = ("-m", "income_client.cli", "export", "--to", "tables", "--format", "parquet")
    await (await started(service, path.parent, *export)).communicate()
    source, target = path.parent / "tables" / "applicants.parquet", path.parent / "left.parquet"
    await python(service, path.parent, path.name, str(source), str(target))
    held, left = pq.read_table(source), pq.read_table(target)
    names = {column.name for column in held.schema if not column.metadata} | {"current_state"}
    assert {*left.column_names} == names
    assert left == held.select(left.column_names)


async def averages_by_state(service: Emulator, path: Path) -> None:
    """There is a row for a state and a year of what was exported."""
    export = ("-m", "income_client.cli", "export", "--to", "tables", "--format", "parquet")
    await (await started(service, path.parent, *export)).communicate()
    lines = await python(service, path.parent, path.name)
    assert len(lines) > 5
    for line in lines:
        assert re.fullmatch(r"[A-Z]{2} 20\d\d \d+ applicants \d+\.\d\d on average", line)


async def merges_exports(service: Emulator, path: Path) -> None:
    """An application that has lost its incomes keeps none; an older export changes nothing."""
    record = make_record()
    application, documents = (
        json.loads(to_json(one), parse_float=Decimal)
        for one in (record.application, record.documents)
    )
    known = service.world.add(application, documents)
    service.advance(60)
    command = ("-m", "income_client.cli", "export", "--format", "parquet", "--to")
    await (await started(service, path.parent, *command, "first")).communicate()
    for calculation in application["income_calculations"].values():
        calculation["incomes"] = []
    service.world.replace(application, documents)
    service.advance(70)
    after = json.loads((path.parent / "first" / "manifest.json").read_text())["next_updated_after"]
    span = ("second", "--updated-after", after)
    await (await started(service, path.parent, *command, *span)).communicate()
    assert await python(service, path.parent, path.name, "first", "second", "first") == []
    with duckdb.connect(str(path.parent / "incomes.duckdb")) as database:
        query = "SELECT count(*), count(DISTINCT application_id) FROM applications"
        assert database.execute(query).fetchall() == [(len(service.world.ids),) * 2]
        incomes = database.execute("SELECT DISTINCT application_id FROM income_sources").fetchall()
    assert len(incomes) > 1
    assert known not in {application_id for (application_id,) in incomes}


async def prints_forms(service: Emulator, path: Path) -> None:
    """Only forms of the type that was registered are printed, with their year."""
    record = make_record()
    application, documents = (
        json.loads(to_json(one), parse_float=Decimal)
        for one in (record.application, record.documents)
    )
    (slip,) = documents["documents"]["paystub"]
    data = {"employer_name": "Acme Tool Works", "year": 2025, "wages": Decimal("1000.50")}
    form = {**slip, "document_id": "doc-form", "extracted_data": data}
    documents["documents"]["invented_form"] = [form]
    record_id = service.world.add(application, documents)
    lines = await python(service, path.parent, path.name, record_id, *service.world.ids[:5])
    assert lines == ["invented_form 2025"]


async def keeps_checkpoints(_service: Emulator, path: Path) -> None:
    """The example's store obeys the rules of the store contract."""
    store, numbers = loaded(path).JsonStore, itertools.count()
    await check_checkpoint_store(lambda: store(path.parent / f"{next(numbers)}.json"))


async def checks_tokens(_service: Emulator, path: Path) -> None:
    """A callback with the token is accepted, one with another is refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALLBACK_TOKEN", "invented-token")
        async with TestServer(loaded(path).app) as server, ClientSession() as session:
            for token, status in (("invented-token", 200), ("guess", 401)):
                headers = {"Authorization": f"Bearer {token}"}
                content = {"event_type": "income_calculation", "application_id": "app-1"}
                address = server.make_url("/callbacks")
                async with session.post(address, json=content, headers=headers) as reply:
                    assert reply.status == status, await reply.text()


async def writes_rows_and_place(service: Emulator, path: Path) -> None:
    """Every application is a row; a further run writes the updated ones alone."""
    wanted = set(service.world.ids)
    for _ in range(2):
        service.requests.clear()
        assert await python(service, path.parent, path.name) == []
        assert set(asked(service)) == wanted
        wanted = updated(service, range(2))
    with contextlib.closing(sqlite3.connect(path.parent / "incomes.db")) as database:
        rows = dict(database.execute("SELECT * FROM incomes"))
    assert rows.keys() == set(service.world.ids)


async def serves_and_polls(service: Emulator, path: Path) -> None:
    """The backend reads, polls, takes callbacks and maps errors; at last it is refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INCOME_CALLBACK_PASSWORD", "invented")
        app = loaded(path).app
    state, known = app.state, service.world.ids[0]
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://backend") as http:
        async with app.router.lifespan_context(app):
            await eventually(lambda: state.poller.status.polls == 1)
            for password, status in (("guess", 401), ("invented", 200)):
                auth = httpx.BasicAuth("service", password)
                assert (await http.post("/callbacks", auth=auth)).status_code == status
            await eventually(lambda: state.poller.status.polls == 2)
            assert (await http.get("/health")).json()["failures"] == 0
            found = (await http.get(f"/applications/{known}")).json()
            assert found["application"]["application_id"] == known
            for status, code in ((404, 404), (403, 502), (429, 503)):
                headers = {"Retry-After": "120"}
                fault = Fault("status", status=status, headers=headers, path="/v1/*")
                service.faults.add(fault)
                answer = await http.get(f"/applications/{known}")
                assert answer.status_code == code
            assert answer.headers["Retry-After"] == "120"
        assert state.polling.done()
        service.faults.add(Fault("status", status=401, path="/v1/*", times=None))
        async with app.router.lifespan_context(app):
            await eventually(state.polling.done)
            assert (await http.get("/health")).status_code == 503


async def audits(service: Emulator, path: Path) -> None:
    """An update that a poller missed, since it was listed too late, is stored by the audit.

    So are applications that are missing, and the figures cover all findings.
    """
    follow = path.with_name("own_database.py")
    follow.write_text((EXAMPLES / follow.name).read_text("utf-8"), "utf-8")
    world, rules = service.world, service.rules
    gone, late, *_ = world.ids
    service.touch(gone)
    service.advance(100)
    await python(service, path.parent, follow.name)
    service.rules = evolve(rules, visibility_delay=90)
    service.touch(late)
    service.rules = rules
    for seconds in (80, 400):  # the update is listed in between, and then older than settle
        service.advance(seconds)
        await python(service, path.parent, follow.name)
    with contextlib.closing(sqlite3.connect(path.parent / "incomes.db")) as database:
        query = "SELECT updated_at FROM incomes WHERE application_id = ?"
        (before,) = database.execute(query, [late]).fetchone()
        database.execute("DELETE FROM incomes WHERE application_id = ?", [gone])
        recently = str(EPOCH + timedelta(seconds=world.now - 1_000))
        database.execute("INSERT INTO incomes VALUES ('app-deleted', ?)", [recently])
        database.commit()
        assert set(await python(service, path.parent, path.name)) == {gone, late}
        (after,) = database.execute(query, [late]).fetchone()
        assert before < after == f"{EPOCH + timedelta(seconds=world.updated_at(late))}+00:00"
    shown = (path.parent / "income_audit.prom").read_text()
    figures = dict(re.findall(r'^income_audit_drift{kind="(\w+)"} ([\d.]+)$', shown, re.MULTILINE))
    found = {"missing": "1.0", "stale": "1.0", "unlisted": "1.0", "in_future": "0.0"}
    assert figures == found
    assert await python(service, path.parent, path.name) == []


async def measures(service: Emulator, path: Path) -> None:
    """Prometheus gets the poller's status; the tests of alerts have the rest."""
    port = free_port()
    url, shown = f"http://127.0.0.1:{port}/metrics", ""
    async with alive(service, path.parent, path.name, PORT=str(port)), ClientSession() as session:
        await eventually((path.parent / "measured.db").exists)
        async with asyncio.timeout(30):
            while 'income_poller_is_leader{poller="default"} 1.0' not in shown:
                await asyncio.sleep(0.01)
                async with session.get(url) as reply:
                    shown = await reply.text()
    assert 'income_poller_failures{poller="default"} 0.0' in shown


async def passes(service: Emulator, path: Path, **more: str) -> None:
    """The example is a test, and pytest runs it as it comes."""
    scope = "--override-ini=asyncio_default_fixture_loop_scope=function"
    options = ("-q", "-p", "no:cacheprovider", scope)
    lines = await python(service, path.parent, "-m", "pytest", *options, path.name, **more)
    assert re.match(r"\d+ passed in", lines[-1])


async def passes_beside_the_backend(service: Emulator, path: Path) -> None:
    """The example tests another one, which is in the same folder."""
    shutil.copy(EXAMPLES / "web_backend.py", path.parent)
    await passes(service, path, INCOME_CALLBACK_PASSWORD="invented")


async def is_loaded(_service: Emulator, path: Path) -> None:
    """The one behind nginx is run by the tests of nginx; here it is only loaded."""
    assert loaded(path).app


RUN: Final[Mapping[str, RunExample]] = {
    "callbacks_nginx.py": is_loaded,
    "callbacks_opaque.py": checks_tokens,
    "daily_audit.py": audits,
    "follow.py": follows,
    "forget_deleted.py": forgets,
    "incomes.py": prints_incomes,
    "incomes_by_state.py": averages_by_state,
    "invented_form.py": prints_forms,
    "json_store.py": keeps_checkpoints,
    "lookup.py": looks_up,
    "lookup_waiting.py": looks_up_waiting,
    "measured_worker.py": measures,
    "merge_exports.py": merges_exports,
    "nightly.py": polls_once,
    "own_database.py": writes_rows_and_place,
    "own_session.py": lends_a_session,
    "rotated_secret.py": reads_rotated_secrets,
    "save_files.py": saves_files,
    "store_files.py": stores_files,
    "sync_files.py": syncs_files,
    "test_backend.py": passes_beside_the_backend,
    "test_decision.py": passes,
    "test_elsewhere.py": passes,
    "test_following.py": passes,
    "test_updates.py": passes,
    "wake_on_callback.py": wakes_on_callback,
    "web_backend.py": serves_and_polls,
    "without_personal_data.py": leaves_personal_data_out,
}
