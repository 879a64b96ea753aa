"""The pytest plug-in in a test run of its own: cheap where it is unused, of help on a failure."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

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

@pytest.mark.income_service(applications=3, faults="get_application: 503")
def test_a_count(income_service, income_client, income_run):
    income_run(income_client.get_application(income_service.ids[0]))
    assert income_service.requests.count("get_application") == 5

@pytest.mark.income_service(3)
def test_a_marker(income_service):
    pass

@pytest.mark.income_service(oder="random")
def test_a_knob(income_service):
    pass

@pytest.mark.income_service(aplications=3)
def test_an_option(income_service):
    pass

@pytest.mark.income_client(concurency=3)
def test_a_client_s(income_client):
    pass

@pytest.mark.income_client(base_url="http://127.0.0.1")
def test_an_address(income_client):
    pass
"""


def _pytest(
    folder: Path, text: str, *options: str, **variables: str
) -> "subprocess.CompletedProcess[str]":
    (folder / "test_it.py").write_text(text, "utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "test_it.py"],
        cwd=folder,
        env=environment(COLUMNS="200", **variables),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_run_without_its_fixtures_pays_nothing(tmp_path: Path) -> None:
    """Neither the client nor the emulator is imported."""
    # Of the other plug-ins, some import these libraries themselves.
    others = ("-p", "no:anyio", "-p", "no:asyncio", "-p", "no:hypothesispytest")
    ended = _pytest(tmp_path, UNUSED, *others)
    assert ended.returncode == 0, ended.stdout


def test_it_can_be_named_and_left_out(tmp_path: Path) -> None:
    """By its name, where plug-ins are not loaded by themselves, and where it is unwanted."""
    named = _pytest(tmp_path, USING, "-p", "income_client", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert named.returncode == 0, named.stdout
    without = _pytest(tmp_path, USING, "-p", "no:income_client")
    assert "fixture 'income_service' not found" in without.stdout


def test_a_failure_shows_what_was_asked(tmp_path: Path) -> None:
    """The requests are below it, and a wrong count names those that it counted."""
    shown = _pytest(tmp_path, FAILING).stdout
    assert "Requests to income_service" in shown
    assert "503  GET /v1/income/applications/" in shown
    assert "(fault: status)" in shown
    assert "assert 2 == 5" in shown
    assert "the marker income_service takes its options by name" in shown
    assert "no option oder; did you mean order?" in shown
    assert "no option aplications; did you mean applications?" in shown
    assert "ConfigurationError: income_client has no option concurency; did you mean" in shown
    assert "ConfigurationError: income_client has no option base_url;" in shown
    assert "invented-secret" not in shown
