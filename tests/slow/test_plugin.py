"""The pytest plug-in in a test run of its own: cheap where it is unused, of help on a failure."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from income_client.testing import make_record
from tests.support.processes import environment

pytestmark = pytest.mark.timeout(300)

_HEAVY: Final = ("aiohttp", "attrs", "income_client.emulator", "income_client.client")

UNUSED: Final = f"""
import sys

def test_nothing():
    assert "income_client.testing.plugin" in sys.modules
    assert [name for name in {_HEAVY} if name in sys.modules] == []
"""

USING: Final = """
def test_something(income_service):
    assert len(income_service.ids) == 100
"""

FAILING: Final = """
import pytest
from income_client import IncomeClientError, RetryPolicy

SERVICE = pytest.mark.income_service(applications=3, faults="get_application: 503 x9")

async def theirs(client, application_id):
    return await client.get_application(application_id)  # a line of theirs

@SERVICE
def test_a_call(income_service, income_client, income_run):
    income_run(theirs(income_client, income_service.ids[0]))

@SERVICE
@pytest.mark.asyncio
async def test_a_walk(income_service, income_client):
    async for record in income_client.fetch_records(income_client.list_applications()):
        pass

@pytest.mark.income_service(applications=3, faults="get_application: 503")
def test_a_count(income_service, income_client, income_run):
    income_run(income_client.get_application(income_service.ids[0]))
    assert income_service.requests.count("get_application") == 5

def test_an_argument():
    RetryPolicy(max_attempts=0)

def test_a_fault(income_service):
    income_service.faults.add("get_application: boom")

@SERVICE
def test_a_cause(income_service, income_client, income_run):
    try:
        income_run(theirs(income_client, income_service.ids[0]))
    except IncomeClientError as error:
        raise RuntimeError("of theirs") from error

@pytest.mark.income_service(oder="random")
def test_a_knob(income_service):
    pass

@pytest.mark.income_client(concurency=3)
def test_a_client_s(income_client):
    pass

@pytest.mark.income_client(base_url="http://127.0.0.1")
def test_an_address(income_client):
    pass
"""

IN_TURN: Final = """
import pytest
from income_client import IncomeClient, UnsafeLinkError
from income_client.testing import IncomeService

async def read_file(folder):
    async with IncomeClient.from_env() as client:
        (first, *_) = [row async for row in client.list_applications()]
        documents = await client.get_documents(first.application_id)
        await client.download(next(iter(documents)), folder / "file")

def test_with_the_fixture(income_environment, income_run, tmp_path):
    income_run(read_file(tmp_path))

def test_without_it(income_run, monkeypatch, tmp_path):
    with IncomeService(applications=1) as service:
        for name, text in service.environment.items():
            monkeypatch.setenv(name, text)
        with pytest.raises(UnsafeLinkError):
            income_run(read_file(tmp_path))
"""

UNEQUAL: Final = """
import pytest
from income_client.testing import make_record

RECORDS = make_record(number=1, applicants=2), make_record(number=2, applicants=2)

def test_records():
    assert RECORDS[0] == RECORDS[1]

@pytest.mark.parametrize("kind", [list, set, tuple])
def test_several_records(kind):
    assert kind(RECORDS[:1]) == kind(RECORDS[1:])

def test_records_by_id():
    assert {"app-1": RECORDS[0]} == {"app-1": RECORDS[1]}

def test_applicants():
    assert RECORDS[0].application.applicants == RECORDS[1].application.applicants
"""

BROKEN: Final = """
import pytest
from income_client.testing import make_application

def test_it():
    make_application(documents=3)

@pytest.mark.income_service(3)
def test_a_marker(income_service):
    pass
"""

Shown = Callable[..., str]


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    """Output of pytest about a file of tests."""

    def run(text: str, *options: str, ends: int = 1, **variables: str) -> str:
        (tmp_path / "test_it.py").write_text(text, "utf-8")
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "test_it.py"],
            cwd=tmp_path,
            env=environment(COLUMNS="200", **variables),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == ends, ended.stdout + ended.stderr
        return ended.stdout

    return run


def test_a_run_without_its_fixtures_pays_nothing(shown: Shown) -> None:
    """Neither the client nor the emulator is imported."""
    # Of the other plug-ins, some import these libraries themselves.
    others = ("anyio", "asyncio", "hypothesispytest", "aiointercept")
    shown(UNUSED, *(word for name in others for word in ("-p", f"no:{name}")), ends=0)


def test_it_can_be_named_and_left_out(shown: Shown) -> None:
    """By its name, where plug-ins are not loaded by themselves, and where it is unwanted."""
    shown(USING, "-p", "income_client", ends=0, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert "fixture 'income_service' not found" in shown(USING, "-p", "no:income_client")


def test_clients_from_the_environment_are_made_as_usual_after_a_test(shown: Shown) -> None:
    shown(IN_TURN, ends=0)


def test_a_failure_shows_what_went_wrong_and_nothing_of_the_package(shown: Shown) -> None:
    """The author's lines, the requests below them, and what a wrong count has counted."""
    text = shown(FAILING)
    assert text.count("# a line of theirs") == 2
    assert ">       income_run(theirs(" in text
    assert ">       async for record in" in text
    assert ">       RetryPolicy(max_attempts=0)" in text
    assert '>       income_service.faults.add("get_application: boom")' in text
    assert text.count("ServerError: get_application(") >= 3
    assert [line for line in text.splitlines() if ".py:" in line and "test_it.py" not in line] == []
    assert "Requests to income_service" in text
    assert "503  GET /v1/income/applications/" in text
    assert "(fault: status)" in text
    assert "assert 2 == 5" in text
    assert "\nE   income_client.errors.ConfigurationError: IncomeService has no option oder" in text
    assert "ConfigurationError: income_client has no option concurency; did you mean" in text
    assert "ConfigurationError: income_client has no option base_url;" in text
    assert "ERROR test_it.py::test_a_knob - income_client.errors.Conf" in text
    assert "invented-secret" not in text


def test_records_that_differ_are_shown_without_personal_data(shown: Shown) -> None:
    """In verbose reports as well, and where records are compared in collections."""
    text = shown(UNEQUAL, "-vv")
    assert "ApplicationRecord == ApplicationRecord, which differ in:" in text
    assert ".application.applicants[applicant1].email: differs" in text
    assert "email=***" in text
    for record in (make_record(number=number, applicants=2) for number in (1, 2)):
        for applicant in record.application.applicants.values():
            assert applicant.email not in text
            assert applicant.ssn not in text
            assert applicant.last_name not in text


def test_all_lines_can_be_shown(shown: Shown) -> None:
    """With pytest's own option for that."""
    assert "settings.py" in shown(FAILING, "--full-trace", "-k", "test_an_argument")


def test_another_error_in_the_package_is_shown_with_its_lines(shown: Shown) -> None:
    """Such an error may be a fault of the package."""
    text = shown(BROKEN)
    assert "TypeError" in text
    assert "factories.py" in text
    assert "the marker income_service takes its options by name" in text
