"""Warnings of the package, said as lines."""

import logging
from collections.abc import Iterator

import pytest

from income_client.cli.output.package_warnings import say_warnings


@pytest.fixture
def said() -> Iterator[list[str]]:
    """Be told of what is said, until the test ends."""
    logger = logging.getLogger("income_client")
    before = list(logger.handlers)
    yield []
    for handler in [one for one in logger.handlers if one not in before]:
        logger.removeHandler(handler)


def test_warnings_of_the_package_are_said(said: list[str]) -> None:
    """A warning of any of its modules is a line; what is less, or another package's, is none."""
    say_warnings(said.append)
    logging.getLogger("income_client.tokens").warning("a token could not be %s", "kept")
    logging.getLogger("income_client.tokens").info("a token was bought")
    logging.getLogger("income_client.poller").error("a poll failed")
    logging.getLogger("other").warning("something")
    assert said == ["a token could not be kept", "a poll failed"]


def test_what_others_say_is_left_to_them(said: list[str]) -> None:
    """Those loggers that somebody says in full are passed over, and no others."""
    say_warnings(said.append, "income_client.poller")
    logging.getLogger("income_client.poller").warning("a poll failed")
    logging.getLogger("income_client.tokens").warning("a token could not be kept")
    assert said == ["a token could not be kept"]
