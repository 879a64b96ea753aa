"""Fixtures of the tests of the command line."""

from tests.support.cli import cli, service_cli

__all__ = ["cli", "service_cli"]
