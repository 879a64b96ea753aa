"""Fixtures of the tests of the command line."""

from tests.support.cli import cli, shell, without_pauses

__all__ = ["cli", "shell", "without_pauses"]
