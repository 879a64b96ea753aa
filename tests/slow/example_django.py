"""Runs of the example in Django: a project as its developer makes it, over PostgreSQL."""

import json
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from income_client.emulator import Emulator, Fault
from income_client.records.window import EPOCH
from tests.slow.examples import RunExample, asked, python, served, started, updated
from tests.support.pages import commands
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.processes import eventually

_SETTINGS: Final = """
import os
INSTALLED_APPS += ["lending"]
ROOT_URLCONF = "lending.views"
ALLOWED_HOSTS = ["*"]
LOGGING = {
    "version": 1,
    "loggers": {name: {"level": "CRITICAL"} for name in ("django.request", "income_client")},
}
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": "postgres",
        "HOST": os.environ["PGHOST"],
    }
}
"""
_CHECKS: Final = ("-m", "tests.slow.in_django")


async def works_in_django(service: Emulator, path: Path) -> None:
    """Rows, their place, the store, the views and the callbacks are what the page says."""
    ids = service.world.ids
    with postgres_server() as server:
        project = _Project(service, path.parent, server)
        await project.make()
        await _follows(service, project)
        updated(service, range(4))
        await project.check("late_process_is_refused")
        updated(service, range(1))
        await project.check("overtaken_task_writes_nothing", ids[0])
        await project.check("query_sets_are_read_in_their_transaction")
        service.requests.clear()
        await project.check("views_answer", ids[0], "app-gone", "%01")
        assert len(asked(service, "token")) == 1
        await project.check("callbacks_ring")
        for status, expected in ((403, "502"), (429, "503")):
            fault = Fault("status", status=status, headers={"Retry-After": "120"}, path="/v1/*")
            service.faults.add(fault)
            assert await project.check("status_is_printed") == [expected]
        await _hands_over(service, project)
        await project.check("store_keeps_the_contract")


class _Project:
    """A project with the example as its app.

    Args:
        service: the service.
        folder: folder of the project, in which the app is.
        server: its database.
    """

    def __init__(self, service: Emulator, folder: Path, server: PostgresServer) -> None:
        self._service = service
        self._folder = folder
        self._variables = {
            "PGHOST": str(server.folder),
            "DJANGO_SETTINGS_MODULE": "shop.settings",
            "CALLBACK_USER": "service",
            "CALLBACK_PASSWORD": "invented",
        }

    async def make(self) -> None:
        """Make the project, and its tables and rows by the page's commands."""
        await python(self._service, self._folder, "-m", "django", "startproject", "shop", ".")
        with (self._folder / "shop" / "settings.py").open("a") as settings:
            settings.write(_SETTINGS)
        for line in commands("python manage.py"):
            await self.run(*line.split()[1:])

    async def run(self, *arguments: str) -> list[str]:
        """Run Python in the project, and return the lines that it printed."""
        return await python(self._service, self._folder, *arguments, **self._variables)

    async def check(self, *arguments: str) -> list[str]:
        """Run a check in a process of the project."""
        return await self.run(*_CHECKS, *arguments)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Run the command, and end it by Ctrl-C."""
        command = ("manage.py", "follow_incomes")
        process = await started(self._service, self._folder, *command, **self._variables)
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            _, complaints = await process.communicate()
        assert (process.returncode, complaints) == (0, b"")

    async def rows(self) -> dict[str, tuple[datetime, Any]]:
        """Return time and content of each row, by its id."""
        rows = map(json.loads, await self.check("rows_are_printed"))
        return {key: (datetime.fromisoformat(time), content) for key, time, content in rows}


async def _follows(service: Emulator, project: _Project) -> None:
    """Every application is a row with its exact amounts; a later run writes updated ones alone."""
    assert set(asked(service)) == set(service.world.ids)
    await _have_rows_of(service, project)
    new = updated(service, range(2))
    service.requests.clear()
    await project.run("manage.py", "follow_incomes", "--once")
    assert set(asked(service)) == new
    await _have_rows_of(service, project)


async def _have_rows_of(service: Emulator, project: _Project) -> None:
    rows = await project.rows()
    assert rows.keys() == set(service.world.ids)
    for application_id, (time, content) in rows.items():
        second = timedelta(seconds=service.world.updated_at(application_id))
        assert time.replace(tzinfo=None) == EPOCH + second
        assert _as_text(content) == _as_text(served(service, application_id))


def _as_text(content: Any) -> str:
    """Return JSON whose amounts are texts of all their digits."""
    return json.dumps(content, default=str, sort_keys=True)


async def _hands_over(service: Emulator, project: _Project) -> None:
    """Of two processes the first one follows; after Ctrl-C the second one does."""
    service.requests.clear()
    async with AsyncExitStack() as ending:
        async with project.following():
            await eventually(lambda: asked(service, "list_applications"))
            await ending.enter_async_context(project.following())
            await _follow_callback(service, project)
        await _follow_callback(service, project)


async def _follow_callback(service: Emulator, project: _Project) -> None:
    service.requests.clear()
    new = updated(service, range(5, 7))
    await project.check("callbacks_ring")
    await eventually(lambda: new <= set(asked(service)))
    await _have_rows_of(service, project)


RUN: Final[Mapping[str, RunExample]] = {"lending": works_in_django}
