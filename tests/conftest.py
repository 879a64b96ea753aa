"""Setup of all tests: profiles, signals, the choice of slow tests, readable ids."""

import gc
import os
import re
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, settings

from income_client.testing import JumpingClock
from tests.support.canaries import WATCH

if TYPE_CHECKING:
    from tests.support.identities import Papers
    from tests.support.telemetry import Collected

# Tests that are run by a test, in processes of their own.
collect_ignore = ["examples/test_backend.py", "slow/example_project", "slow/released"]

MOST_SLEEPS: Final = 1_000
"""Pauses of a test on one clock that jumps, several times those of the longest one."""
SLOW: Final = Path(__file__).parent / "slow"
MEMORY: Final = Path("/dev/shm")
MOST_BYTES: Final = 2**30
"""Room for the folders of a run, several times what they hold."""

settings.register_profile(
    "quick",
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile(
    "full",
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> "Papers":
    """Certificate authorities and certificates made for these tests."""
    from tests.support.identities import made_papers  # noqa: PLC0415 - for few tests

    return made_papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture
def exported() -> "Iterator[Collected]":
    """Spans and metrics that OpenTelemetry records during a test."""
    from tests.support.telemetry import collecting  # noqa: PLC0415 - for few tests

    with collecting() as found:
        yield found


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that run more."""
    parser.addoption(
        "--full",
        action="store_true",
        help="run the slow tests too, and 50 examples of each property instead of 15",
    )
    parser.addoption(
        "--kills",
        type=int,
        default=30,
        metavar="N",
        help="a measure of how often --full kills processes: each kind has its share (default: 30)",
    )
    parser.addoption(
        "--no-skips",
        action="store_true",
        help="fail where a test was skipped, since nothing that it needs may be missing",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile, undo the ignored Ctrl-C of ``pytest &``, and watch what comes out."""
    config.pluginmanager.register(WATCH, "secrecy")
    # Nearly every file is synced, and to wait for a disk shows nothing.
    # The slow tests install packages, which take too much room.
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MOST_BYTES
    if has_room and not config.getoption("full"):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    settings.load_profile("full" if config.getoption("full") else "quick")
    # A loop that waits for what never comes must fail: not every signal of pytest-timeout ends it.
    JumpingClock.most_sleeps = MOST_SLEEPS
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run four at least with the slow tests: many of them wait for servers and processes."""
    return max(4, os.cpu_count() or 1) if config.getoption("full") else None


def pytest_make_parametrize_id(val: Any, argname: str) -> str | None:
    """Name by its argument what is long, such as a key made just now: workers must agree."""
    return argname if isinstance(val, str | bytes) and len(val) > 100 else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the slow tests out, unless all are asked for or their folder is named."""
    return True if collection_path == SLOW and not config.getoption("full") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests; refuse ids that change from run to run."""
    unstable = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unstable:
        raise pytest.UsageError("ids hold a memory address: " + ", ".join(unstable))
    for item in items:
        if item.path.is_relative_to(SLOW):
            item.add_marker(pytest.mark.slow)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail for a skipped test, if asked to."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("no_skips") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from going through thousands of tests each time it runs."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Report in one line what was left out, and how it is run."""
    asked = {Path(config.invocation_params.dir, argument) for argument in config.args}
    if config.getoption("full") or asked.isdisjoint(SLOW.parents):
        return
    written = "".join(path.read_text("utf-8") for path in SLOW.glob("test_*.py"))
    count = len(re.findall(r"^ *(?:async )?def test_", written, re.MULTILINE))
    terminalreporter.write_line(f"left out {count} slow tests; to run them too: pytest --full")
