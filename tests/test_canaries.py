"""Tests of the watch over all tests: private data is found anywhere, and so are server errors."""

import asyncio
import base64
import json
import logging
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import income_client
from income_client import IncomeClient, TransportError, to_json
from income_client.emulator import Emulator
from income_client.emulator.api import AccessTokens
from income_client.events.instrumentation import Instrumentation
from income_client.system.frames import strip_frames
from tests.support.canaries import SECRET, TOKEN, WATCH, Watch, private_in
from tests.support.cli import Cli
from tests.support.payloads import APPLICATION, DOCUMENTS
from tests.support.server import Reply, Request, ScriptedServer

pytest_plugins = ("pytester",)


def logged() -> None:
    """Log a token as an attribute of a record that nobody prints."""
    logging.getLogger("income_client.session").debug("received", extra={"token": TOKEN})


def logged_with_its_error() -> None:
    """Log an error whose message nobody should see."""
    try:
        raise ValueError(SECRET)  # noqa: TRY301 - logged with its traceback
    except ValueError:
        logging.getLogger("income_client.worker").exception("failed")


@strip_frames
def fail() -> None:
    """Raise an error from a sensitive function."""
    raise TransportError("no reply", request_id=TOKEN)


def left() -> None:
    """Let an error out of a sensitive function, and take it without pytest."""
    with suppress(TransportError):
        fail()


def made() -> None:
    """Make an error in the package, and raise it nowhere."""
    path = Path(income_client.__file__).parent / "client.py"
    scope = {"TransportError": TransportError}
    exec(compile(f"TransportError({TOKEN!r})", str(path), "exec"), scope)


def chained() -> None:
    """Let an error out with a cause."""
    with pytest.raises(TransportError):
        raise TransportError("no reply") from ValueError(TOKEN)


class Hidden(str):
    """A text that only a pickle shows."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "hidden"


def pickled() -> None:
    """Raise an error that shows more in its pickle than in its repr."""
    error = TransportError("no reply")
    vars(error)["url"] = Hidden(TOKEN)
    with pytest.raises(TransportError):
        raise error


def in_a_frame() -> None:
    """Call a public method that holds a token as it fails."""
    source = f"class IncomeClient:\n def check(self):\n  token = {TOKEN!r}\n  raise KeyError(token)"
    scope: dict[str, type] = {}
    exec(compile(source, str(Path(income_client.__file__).parent / "client.py"), "exec"), scope)
    with pytest.raises(KeyError):
        scope["IncomeClient"]().check()


def told() -> None:
    """Give an event with a token to who listens."""
    instrumentation = Instrumentation(lambda _: None)
    assert instrumentation.emit is not None
    instrumentation.emit(TOKEN)  # type: ignore[arg-type]  # whatever it is


def of_a_process() -> None:
    """Print a token in another process."""
    command = [sys.executable, "-c", f"print({TOKEN!r})"]
    subprocess.run(command, check=True, capture_output=True)


LEAKS: dict[Callable[[], None], str] = {
    logged: "log",
    logged_with_its_error: "log",
    left: "error",
    made: "error",
    chained: "error",
    pickled: "error",
    in_a_frame: "error",
    told: "event",
    of_a_process: "output",
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_seen(leak: Callable[[], None]) -> None:
    leak()
    assert list(WATCH.taken()) == [LEAKS[leak]]


def test_what_a_test_prints_is_seen(capfd: pytest.CaptureFixture[str]) -> None:
    """By itself, or by a command that writes to descriptors."""
    print(SECRET)  # noqa: T201 - that is the point
    capfd.readouterr()
    assert list(WATCH.taken()) == ["output"]


def test_what_a_command_writes_is_seen(tmp_path: Path) -> None:
    """The command line's own streams are read by nobody else."""
    Cli(tmp_path)("guide", TOKEN)
    assert list(WATCH.taken()) == ["output"]


@pytest.mark.shows_private("file", reason="it is the point")
def test_what_is_in_a_file_is_seen(tmp_path: Path) -> None:
    """In any folder below that of the test, and in a binary one too."""
    folder = tmp_path / "one" / "two"
    folder.mkdir(parents=True)
    (folder / "cache.db").write_bytes(b"\x00" + TOKEN.encode() + b"\xff")
    WATCH.look_at_files(tmp_path)
    assert list(WATCH.taken()) == ["file"]


PRINTING = """
import pytest

def test_that_leaks(tmp_path):
    (tmp_path / "log").write_text("{0}")

def test_that_leaks_nothing():
    pass

@pytest.mark.shows_private("file", reason="it is the point")
def test_that_leaks_by_design(tmp_path):
    (tmp_path / "log").write_text("{0}")

@pytest.mark.shows_private("file", reason="it is the point")
def test_that_leaks_elsewhere():
    print("{0}")
"""


@pytest.mark.shows_private("file", "output", reason="it is the point")
def test_a_test_with_a_leak_fails(pytester: pytest.Pytester) -> None:
    """Unless the kind of leak is by design, which its mark says."""
    pytester.makepyfile(PRINTING.format(TOKEN))
    run = pytester.inline_run("-p", "no:asyncio", plugins=[Watch()])
    run.assertoutcome(passed=4, failed=2)


async def test_what_the_emulator_invents_is_known() -> None:
    """Credentials, tokens, signed addresses and applicants of the emulator are private."""
    token = AccessTokens(seed=7).issue("client", now=0, lifetime=60)
    async with Emulator(applications=1, seed=7) as service:
        async with IncomeClient(service.url, auth=service.oauth2) as client:
            record = await anext(client.fetch_records(service.world.ids))
        assert record.documents is not None
        pairs = (service.oauth2, service.basic)
    headers = [pair.authorization().reveal() for pair in pairs]
    secrets = [token, *headers, service.basic.password.reveal()]
    addresses = [entry.document.url for entry in record.documents.all()]
    assert all(private_in(secret, borrowers=False) for secret in (*secrets, *addresses))
    people = [to_json(applicant).decode() for applicant in record.application.applicants.values()]
    assert all(private_in(person) and not private_in(person, borrowers=False) for person in people)


@pytest.mark.parametrize("before", ["", "u", "us"])
def test_a_secret_in_base64_is_known(before: str) -> None:
    assert private_in(base64.b64encode(f"{before}{SECRET}".encode()).decode())


@pytest.mark.parametrize("payload", [APPLICATION, DOCUMENTS])
def test_what_payloads_hold_is_known(payload: object) -> None:
    """A borrower's data is private."""
    assert private_in(json.dumps(payload))


async def test_what_an_answer_raises_fails_its_test() -> None:
    """Though it is raised in another task."""

    def answer(request: Request) -> Reply:
        raise AssertionError(request.path)

    with pytest.raises(AssertionError, match="/somewhere"):  # noqa: PT012 - raised at its end
        async with ScriptedServer(answer) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /somewhere HTTP/1.1\r\n\r\n")
            assert await reader.read() == b""
            writer.close()
