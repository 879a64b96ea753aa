"""Refused credentials: exit status 4 in every command, and one line that says so."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from income_client.testing import IncomeService
from tests.cli.in_process import Shell

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
def shell(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Shell:
    """The command, with no settings of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return Shell(capfd, monkeypatch)


@pytest.fixture
def service() -> Iterator[IncomeService]:
    """A service with a few applications."""
    with IncomeService(3) as made:
        yield made


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_client_secret_is_status_4(
    command: str, shell: Shell, service: IncomeService, tmp_path: Path
) -> None:
    """The token endpoint refuses it; nothing is tried for each application again."""
    arguments = (command, *COMMANDS[command](service, tmp_path))
    ended = shell(*arguments, **{**service.environment, "INCOME_CLIENT_SECRET": "wrong"})
    assert ended.status == 4
    assert len(ended.err.splitlines()) <= 2


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - NO_TOKENS))
def test_a_wrong_password_is_status_4(
    command: str, shell: Shell, service: IncomeService, tmp_path: Path
) -> None:
    """The service itself refuses it."""
    ended = shell(
        *(command, *COMMANDS[command](service, tmp_path)),
        INCOME_BASE_URL=service.url,
        INCOME_USERNAME=service.basic.username,
        INCOME_PASSWORD="wrong",
    )
    assert ended.status == 4
    assert len(ended.err.splitlines()) <= 2


def test_documents_says_once_that_credentials_are_refused(
    shell: Shell, service: IncomeService
) -> None:
    """It stops at the first refusal, however many applications are left."""
    ended = shell(
        *("documents", *service.ids),
        INCOME_BASE_URL=service.url,
        INCOME_USERNAME="nobody",
        INCOME_PASSWORD="wrong",
    )
    assert (ended.status, ended.out, len(ended.err.splitlines())) == (4, "", 1)
