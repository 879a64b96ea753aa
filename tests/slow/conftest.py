"""The servers and the browser that slow tests need, one of each for the tests of a process."""

from collections.abc import Iterator

import pytest

from tests.support.browser import EXECUTABLE, Browser, browser
from tests.support.rabbit_server import RabbitServer, running_rabbit
from tests.support.redis_server import DURABLE, RedisServer, running_redis


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what needs RabbitMQ, so that one process has these, and few servers start."""
    items.sort(key=lambda item: "rabbit" not in item.nodeid)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run a server with the settings that the guide asks for."""
    yield from running_redis(tmp_path_factory.mktemp("redis"), *DURABLE)


@pytest.fixture(scope="session")
def rabbit_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    """Run a server with its own settings."""
    yield from running_rabbit(tmp_path_factory.mktemp("rabbit"))


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Run the machine's browser."""
    if EXECUTABLE is None:
        pytest.skip("no browser; Debian has one: apt-get install chromium")
    with browser(tmp_path_factory.mktemp("profile")) as running:
        yield running
