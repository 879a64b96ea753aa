"""The servers that engines are tested with."""

from collections.abc import Iterator

import pytest

from tests.support.nats_server import NatsServer, running_server


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """Run a NATS server with JetStream for all tests of a process."""
    yield from running_server(tmp_path_factory.mktemp("nats"))
