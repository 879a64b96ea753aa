"""``--type`` of ``documents`` and ``download``: a misspelt type is no success."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from income_client.testing import IncomeService, make_record
from tests.support.cli import Cli, Ran

Run = Callable[..., Ran]

COMMANDS: Final[dict[str, Callable[[Path], tuple[str, ...]]]] = {
    "documents": lambda _: (),
    "documents-quiet": lambda _: ("-q",),
    "download": lambda folder: ("--to", str(folder / "files"), "--allow-host", "127.0.0.1"),
    "download-quiet": lambda folder: (
        "-q", "--to", str(folder / "files"), "--allow-host", "127.0.0.1",
    ),
}  # fmt: skip


@pytest.fixture
def service() -> Iterator[IncomeService]:
    """A service with two applications that have documents, and one that has none."""
    with IncomeService(2, records=[make_record(application_id="bare", paystubs=0)]) as made:
        yield made


@pytest.fixture(params=COMMANDS)
def command(
    request: pytest.FixtureRequest,
    service: IncomeService,
    tmp_path: Path,
    cli: Cli,
) -> Run:
    """A command that takes ``--type``, ready to be called with ids and types."""
    name, _, _ = request.param.partition("-")

    def run(*arguments: str) -> Ran:
        return cli.at(service)(name, *COMMANDS[request.param](tmp_path), *arguments)

    return run


def test_a_type_that_no_document_has_is_status_1(command: Run, service: IncomeService) -> None:
    """It is said with the types that there are, since it may be misspelt."""
    ended = command(*service.ids, "--type", "paystubs")
    assert (ended.status, ended.stdout) == (1, "")
    assert "no document of type paystubs; there are " in ended.stderr
    assert "paystub" in ended.stderr.partition("there are ")[2]


def test_a_misspelt_type_beside_a_good_one_is_status_1(
    command: Run, service: IncomeService
) -> None:
    """What the other one has is there all the same."""
    ended = command(*service.ids, "--type", "paystub", "--type", "paystubs")
    assert ended.status == 1
    assert ended.stdout
    assert "no document of type paystubs; there are " in ended.stderr


def test_a_type_of_the_contract_may_be_missing(command: Run) -> None:
    """An application need not have a paystub, and the type is not misspelt."""
    ended = command("bare", "--type", "paystub")
    assert (ended.status, ended.stdout) == (0, "")
    assert "no document of type paystub; there are none" in ended.stderr


def test_nothing_is_known_of_a_type_where_nothing_was_updated(
    service: IncomeService, tmp_path: Path, cli: Cli
) -> None:
    """A job that runs each minute does not fail in a minute without updates."""
    span = ("--updated-after", "2026-06-30T11:59:59", "--updated-before", "2026-06-30T11:59:59")
    to = ("--to", str(tmp_path / "files"))
    ended = cli.at(service)("download", *to, "--type", "w2", *span)
    assert ended.status == 0
