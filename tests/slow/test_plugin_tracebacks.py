"""A failure shows its author's lines and what went wrong, and none of the package's own."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes import environment

FAILING: Final = """
import pytest
from income_client import IncomeClientError, RetryPolicy
from income_client.testing import make_record, script

SERVICE = pytest.mark.income_service(applications=1, faults="get_application: 503 x9")

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
def test_an_option(income_service):
    pass
"""
BROKEN: Final = """
from income_client.testing import make_record

def test_it():
    make_record(paystubs="some")
"""
PATIENCE: Final = 300
"""Seconds for a test run in a process of its own, on a machine that has other things to do."""

pytestmark = pytest.mark.timeout(PATIENCE)


@pytest.fixture
def shown(tmp_path: Path) -> Callable[..., str]:
    """What pytest prints of a file of failing tests."""

    def run(text: str, *options: str) -> str:
        (tmp_path / "test_it.py").write_text(text, "utf-8")
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "test_it.py"]
        ended = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment(COLUMNS="200"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 1, ended.stdout + ended.stderr
        return ended.stdout

    return run


def test_only_the_author_s_lines_are_shown(shown: Callable[..., str]) -> None:
    """Whatever lies between them, the event loops of the kit included, is left out."""
    text = shown(FAILING)
    assert text.count("# a line of theirs") == 2
    assert ">       income_run(theirs(" in text
    assert ">       async for record in" in text
    assert ">       RetryPolicy(max_attempts=0)" in text
    assert '>       income_service.faults.add("get_application: boom")' in text
    assert "\nE   income_client.errors.ConfigurationError: IncomeService has no option oder" in text
    assert "ERROR test_it.py::test_an_option - income_client.errors.Conf" in text
    assert text.count("ServerError: get_application(") >= 3
    assert [line for line in text.splitlines() if ".py:" in line and "test_it.py" not in line] == []


@pytest.mark.parametrize("option", ["--full-trace", "--tb=native"])
def test_all_lines_can_be_shown(shown: Callable[..., str], option: str) -> None:
    """To who asks pytest for them."""
    text = shown(FAILING, option, "-k", "test_a_call")
    assert "session.py" in text
    assert "# a line of theirs" in text


def test_a_fault_of_the_package_is_shown_with_its_lines(shown: Callable[..., str]) -> None:
    """What is no error of the package's own says too little without them."""
    text = shown(BROKEN)
    assert "TypeError" in text
    assert "factories.py" in text
