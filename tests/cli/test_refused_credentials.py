"""Refused credentials: exit status 4 in every command, and one line that says so."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from income_client.testing import IncomeService
from tests.support.cli import Cli

COMMANDS: Final[dict[str, Callable[[IncomeService, Path], tuple[str, ...]]]] = {
    "application": lambda service, _: service.ids[:1],
    "applications": lambda *_: (),
    "doctor": lambda *_: ("-o", "json"),
    "documents": lambda service, _: service.ids,
    "download": lambda service, folder: ("--to", str(folder / "files"), *service.ids),
    "export": lambda _, folder: ("--to", str(folder / "all.jsonl")),
    "find": lambda *_: ("LOAN-1",),
    "poll": lambda _, folder: ("--store", str(folder / "polls.db"), "--once"),
    "token": lambda *_: (),
    "trigger": lambda *_: (),
}  # fmt: skip
NO_TOKENS: Final = {"token"}


@pytest.fixture
def service() -> Iterator[IncomeService]:
    """A service with a few applications."""
    with IncomeService(3) as made:
        yield made


def as_user(service: IncomeService, name: str) -> dict[str, str]:
    """Return the variables of a user with a wrong password."""
    return {
        "INCOME_BASE_URL": service.url, "INCOME_USERNAME": name, "INCOME_PASSWORD": "wrong",
    }  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_client_secret_is_status_4(
    command: str, cli: Cli, service: IncomeService, tmp_path: Path
) -> None:
    """The token endpoint refuses it; nothing is tried for each application again."""
    arguments = (command, *COMMANDS[command](service, tmp_path))
    ended = cli.at(service)(*arguments, env={"INCOME_CLIENT_SECRET": "wrong"})
    assert ended.status == 4
    assert len(ended.stderr.splitlines()) <= 2


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - NO_TOKENS))
def test_a_wrong_password_is_status_4(
    command: str, cli: Cli, service: IncomeService, tmp_path: Path
) -> None:
    """The service itself refuses it."""
    wrong = as_user(service, service.basic.username)
    ended = cli(command, *COMMANDS[command](service, tmp_path), env=wrong)
    assert ended.status == 4
    assert len(ended.stderr.splitlines()) <= 2


def test_documents_says_once_that_credentials_are_refused(cli: Cli, service: IncomeService) -> None:
    """It stops at the first refusal, however many applications are left."""
    ended = cli("documents", *service.ids, env=as_user(service, "nobody"))
    assert (ended.status, ended.stdout, len(ended.stderr.splitlines())) == (4, "", 1)
