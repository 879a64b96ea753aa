"""The README is true: its commands, its output, its error tree and every example in it.

An example names its file in its first line, and the table says how it is run;
one that stands in no row fails, so that none is only read.
"""

import asyncio
import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from aiohttp import ClientSession, web

from income_client import errors
from income_client.emulator import Emulator
from tests.cli.entry import ROOT, environment, run

README: Final = (ROOT / "README.md").read_text("utf-8")
DEMO: Final = (
    "python3 -m venv .venv && .venv/bin/pip install -e '.[cli]' && .venv/bin/income-client demo"
)
TESTS: Final = "python3 -m venv .venv && .venv/bin/pip install -e '.[dev]' && .venv/bin/pytest"
_FENCE: Final = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    """Return the contents of the fenced blocks of a kind."""
    return [match["text"] for match in _FENCE.finditer(README) if match["kind"] == kind]


def _file_name(example: str) -> str:
    return example.partition("\n")[0].removeprefix("# ")


EXAMPLES: Final = {_file_name(example): example for example in blocks("python")}


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """A service with updates in its last days."""
    async with Emulator(300) as emulator:
        yield emulator


def variables(service: Emulator) -> dict[str, str]:
    """Return the environment that leads to a service."""
    return {
        "INCOME_BASE_URL": service.url,
        "INCOME_CLIENT_ID": service.oauth2.client_id,
        "INCOME_CLIENT_SECRET": service.oauth2.client_secret.reveal(),
    }


async def python(service: Emulator, folder: Path, *arguments: str) -> list[str]:
    """Run Python in a folder with warnings as errors, and return the lines that it printed."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "error"),
        *arguments,
        cwd=folder,
        env=environment(**variables(service), PYTHONPATH=path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    output, complaints = await process.communicate()
    assert (process.returncode, complaints.decode()) == (0, ""), output.decode()
    return output.decode().splitlines()


def loaded(path: Path) -> ModuleType:
    """Import a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def prints_incomes(service: Emulator, path: Path) -> None:
    """Each line is an application, an applicant, a year and an amount."""
    lines = await python(service, path.parent, path.name)
    assert len(lines) > 5
    for line in lines:
        assert re.fullmatch(r"app-[0-9a-f]{10} applicant\d 20\d\d \d+(\.\d+)?", line)


async def prints_documents(service: Emulator, path: Path) -> None:
    """Each line is a time, a type and a document."""
    oauth2 = service.oauth2
    arguments = (service.url, oauth2.client_id, oauth2.client_secret.reveal())
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        await loaded(path).show(*arguments, service.world.reference_of(7))
    lines = printed.getvalue().splitlines()
    assert lines
    assert all(re.fullmatch(r"[0-9-]{10} [0-9:]{8}\+00:00 \w+ doc-\S+", line) for line in lines)


async def resumes(service: Emulator, path: Path) -> None:
    """A second run has nothing left to do, and one from halfway does the rest."""
    assert len(await python(service, path.parent, path.name)) >= 1
    assert await python(service, path.parent, path.name) == []


async def reports_each(service: Emulator, path: Path) -> None:
    """Every application is read, and the one that does not exist is told apart."""
    *read, failed = await python(service, path.parent, path.name)
    assert read
    assert all(line.endswith(" read") for line in read)
    assert failed.startswith("no-such-application not at all ")


async def prints_w2(service: Emulator, path: Path) -> None:
    """Only W-2 forms are printed, with their year."""
    lines = await python(service, path.parent, path.name)
    assert lines
    assert all(re.fullmatch(r"w2 20\d\d", line) for line in lines)


async def tells_it_is_gone(service: Emulator, path: Path) -> None:
    """An application that does not exist is one line."""
    (line,) = await python(service, path.parent, path.name)
    assert line.startswith("gone: ")


async def passes(service: Emulator, path: Path) -> None:
    """The example is a test, and pytest runs it with nothing set but the asyncio mode."""
    settings = ("asyncio_mode=auto", "asyncio_default_fixture_loop_scope=function")
    options = [f"--override-ini={setting}" for setting in settings]
    lines = await python(
        service, path.parent, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, path.name
    )
    assert lines[-1].startswith("1 passed")


async def serves_with_fastapi(service: Emulator, path: Path) -> None:
    """The application answers over ASGI, its client opened and closed by its lifespan."""
    app = loaded(path).app
    name = service.world.ids[0]
    async with app.router.lifespan_context(app) as state:
        found = await _asgi_get(app, f"/applications/{name}/applicants", state)
        missing = await _asgi_get(app, "/applications/nobody/applicants", state)
        client = state["income"]
    assert found[0] == 200
    assert found[1].startswith(b'["applicant1"')
    assert missing[0] == 404
    with pytest.raises(errors.ClientClosedError):
        await client.get_application(name)


async def serves_with_aiohttp(service: Emulator, path: Path) -> None:
    """The application answers over a socket."""
    runner = web.AppRunner(loaded(path).make_app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    url = f"http://{host}:{port}/applications"
    async with ClientSession() as session:
        async with session.get(f"{url}/{service.world.ids[0]}/applicants") as reply:
            assert (reply.status, (await reply.json())[0]) == (200, "applicant1")
        async with session.get(f"{url}/nobody/applicants") as reply:
            assert reply.status == 404
    await runner.cleanup()


async def _asgi_get(app: Any, path: str, state: Mapping[str, Any]) -> tuple[int, bytes]:
    sent: list[Mapping[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
        "state": dict(state),
    }
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


RUN: Final[Mapping[str, Callable[[Emulator, Path], Awaitable[None]]]] = {
    "backend.py": serves_with_fastapi,
    "backend_aiohttp.py": serves_with_aiohttp,
    "careful.py": tells_it_is_gone,
    "explicit.py": prints_documents,
    "incomes.py": prints_incomes,
    "nightly.py": resumes,
    "test_incomes.py": passes,
    "w2.py": prints_w2,
    "worker.py": reports_each,
}


def test_every_example_is_run() -> None:
    """Each block of Python has its row in the table."""
    assert len(EXAMPLES) == len(blocks("python"))
    assert sorted(EXAMPLES) == sorted(RUN)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
async def test_the_example_works(
    name: str, service: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does against the emulator what the text around it says."""
    for variable, value in variables(service).items():
        monkeypatch.setenv(variable, value)
    path = tmp_path / name
    path.write_text(EXAMPLES[name], "utf-8")
    await RUN[name](service, path)


def test_both_commands_stand_alone_in_their_blocks() -> None:
    """They can be copied as they are."""
    assert blocks("sh") == [f"{DEMO}\n", f"{TESTS}\n"]


def test_ci_takes_the_commands_from_here() -> None:
    """What CI runs is read from this file, so that the two cannot drift apart."""
    ended = subprocess.run(
        [ROOT / ".ci" / "run", "commands"], capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines() == [TESTS, DEMO]


def test_the_output_shown_is_the_demo_s() -> None:
    """The demo prints these lines; only figures differ from machine to machine."""

    def shape(text: str) -> list[str]:
        return [
            re.sub(r"[\d,.]+|[▏▎▍▌▋▊▉█]+", "#", " ".join(line.split()))
            for line in text.splitlines()
        ]

    shown = blocks("text")[0]
    assert shape(run("demo").stdout) == shape(shown)
    assert "Applications found  5,000  of 5,000 existing" in shown


def test_the_error_tree_shown_is_the_package_s() -> None:
    """The tree is the one in the docstring of ``errors``."""
    drawn = [
        line for line in (errors.__doc__ or "").splitlines() if re.match("IncomeC|[├│└]", line)
    ]
    assert blocks("text")[1].splitlines() == drawn


def test_extras_are_those_that_the_commands_name() -> None:
    """The commands install extras that exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert {"cli", "dev"} == set(project["project"]["optional-dependencies"])
