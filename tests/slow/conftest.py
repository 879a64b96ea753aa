"""The browser that slow tests need, one for the tests of a process."""

from collections.abc import Iterator

import pytest

from tests.slow.browser import EXECUTABLE, Browser, browser


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Run the machine's browser."""
    if EXECUTABLE is None:
        pytest.skip("no browser; Debian has one: apt-get install chromium")
    with browser(tmp_path_factory.mktemp("profile")) as running:
        yield running
