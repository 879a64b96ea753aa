"""The plug-in: cheap where it is unused, and of help where a test fails."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from income_client import IncomeClient, RetryPolicy
from income_client.emulator import Order
from income_client.testing import IncomeService, JumpingClock
from tests.cli.entry import environment

PATIENCE: Final = 300
"""Seconds for a test run in a process of its own, on a machine that has other things to do."""
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


def test_the_markers_help_shows_what_can_be_written(pytestconfig: pytest.Config) -> None:
    """The policy that it makes up is one."""
    (shown,) = (
        found
        for line in pytestconfig.getini("markers")
        for found in re.findall(r"RetryPolicy\((\w+)=1\)", line)
    )
    assert RetryPolicy(**{shown: 1}).max_attempts == 1


@pytest.mark.timeout(PATIENCE)
def test_a_run_without_its_fixtures_pays_nothing(tmp_path: Path) -> None:
    """Neither the client nor the emulator is imported."""
    # Of the other plug-ins, some import these libraries themselves.
    others = ("-p", "no:anyio", "-p", "no:asyncio", "-p", "no:hypothesispytest")
    ended = _pytest(tmp_path, UNUSED, *others)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.timeout(PATIENCE)
def test_it_can_be_named_and_left_out(tmp_path: Path) -> None:
    """By its name, where plug-ins are not loaded by themselves, and where it is unwanted."""
    named = _pytest(tmp_path, USING, "-p", "income_client", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert named.returncode == 0, named.stdout
    without = _pytest(tmp_path, USING, "-p", "no:income_client")
    assert "fixture 'income_service' not found" in without.stdout


@pytest.mark.timeout(PATIENCE)
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


class TestOptions:
    """The fixture's options come first, then those of markers, the closest last."""

    pytestmark = pytest.mark.income_service(applications=5, order="shuffled")

    @pytest.fixture
    def income_service_options(self) -> Mapping[str, Any]:
        """What the whole class begins with."""
        return {"applications": 9, "seed": 3}

    def test_the_fixture_s_stand_where_no_marker_speaks(
        self, income_service: IncomeService
    ) -> None:
        """The seed is the fixture's, the number the marker's."""
        assert len(income_service.ids) == 5
        assert income_service.rules.order is Order.SHUFFLED
        assert "secret-3" in income_service.oauth2.client_secret.reveal()

    @pytest.mark.income_service(applications=2)
    def test_the_closest_marker_counts(self, income_service: IncomeService) -> None:
        """What it does not name is the outer one's."""
        assert len(income_service.ids) == 2
        assert income_service.rules.order is Order.SHUFFLED


@pytest.mark.income_client(retry=RetryPolicy(max_attempts=1))
@pytest.mark.income_service(faults="get_application: 503")
async def test_the_client_has_options_too(
    income_service: IncomeService, income_client: IncomeClient, income_clock: JumpingClock
) -> None:
    """What the marker says is the constructor's."""
    with pytest.raises(Exception, match="503"):
        await income_client.get_application(income_service.ids[0])
    assert income_clock.slept == []


async def test_client_and_service_have_one_clock(
    income_service: IncomeService, income_clock: JumpingClock
) -> None:
    """What moves the one moves the other."""
    before = income_service.now
    income_clock.advance(60)
    assert (income_service.now - before).total_seconds() == 60
    income_service.advance(30)
    assert (income_service.now - before).total_seconds() == 90
