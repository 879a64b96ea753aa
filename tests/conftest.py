"""What every test runs under: profiles, signals, the choice of slow tests, readable ids."""

import signal
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

SLOW: Final = Path(__file__).parent / "slow"

settings.register_profile(
    "quick", max_examples=25, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.register_profile(
    "full", max_examples=400, deadline=None, suppress_health_check=list(HealthCheck)
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs everything."""
    parser.addoption(
        "--full",
        action="store_true",
        help="run the slow tests too, and 400 examples of each property instead of 25",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile, and undo the ignored Ctrl-C of ``pytest &`` in a script."""
    settings.load_profile("full" if config.getoption("full") else "quick")
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val: Any) -> str | None:
    """Name a parameter by words, never by the address of an object."""
    if isinstance(val, dict):
        return ",".join(f"{key}={_word(one)}" for key, one in val.items()) or "nothing"
    return None if isinstance(val, str | int | float | bool | None) else _word(val)


def _word(value: Any) -> str:
    if isinstance(value, frozenset | set):
        return ",".join(sorted(map(_word, value)))
    text = repr(value)
    if "0x" in text or len(text) > 30:
        return getattr(value, "__name__", type(value).__name__)
    return text


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the slow tests unless all are asked for; refuse ids that change from run to run."""
    unstable = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unstable:
        raise pytest.UsageError("ids hold a memory address: " + ", ".join(unstable))
    for item in items:
        if item.path.is_relative_to(SLOW):
            item.add_marker(pytest.mark.slow)
    if config.getoption("full"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
