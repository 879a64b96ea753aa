"""Fixtures of the tests of the command line."""

from tests.support.cli import cli, service_cli, without_pauses

__all__ = ["cli", "service_cli", "without_pauses"]
