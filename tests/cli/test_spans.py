"""Spans of updates: refused or kept to, also where they reach the service's present."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from income_client.testing import IncomeService
from tests.support.cli import Cli

COMMANDS: Final[dict[str, Callable[[Path], tuple[str, ...]]]] = {
    "applications": lambda _: (),
    "download": lambda folder: ("--to", str(folder / "files")),
    "export": lambda folder: ("--to", str(folder / "all.jsonl")),
}


@pytest.fixture
def service() -> Iterator[IncomeService]:
    """A service with many applications, at noon of 30 June 2026."""
    with IncomeService(5000) as made:
        yield made


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "span",
    [
        ("2026-06-02", "2026-06-01"),
        ("2026-06-30", "2d"),
        ("1d", "7d"),
        ("1d", "2026-06-01"),
        ("2026-06-02T00:00:00Z", "2026-06-01"),
        ("2026-06-30T12:00:01", None),
        ("2100-01-01", None),
        ("2100-01-01T00:00:00+02:00", "2101-01-01"),
    ],
    ids=lambda span: "-".join(filter(None, span)).replace(":", ""),
)
def test_a_span_without_time_in_it_is_status_2(
    command: str,
    span: tuple[str, str | None],
    cli: Cli,
    service: IncomeService,
    tmp_path: Path,
) -> None:
    """It ends before it begins, or begins in the service's future, in whatever form it is given."""
    after, before = span
    bounds = ["--updated-after", after, *(["--updated-before", before] if before else [])]
    ended = cli.at(service)(command, *COMMANDS[command](tmp_path), *bounds)
    assert (ended.status, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"home"}


def test_a_poller_begins_at_no_time_to_come(
    cli: Cli, service: IncomeService, tmp_path: Path
) -> None:
    """The start is a time of the service's past, or its present."""
    store = str(tmp_path / "polls.db")
    ended = cli.at(service)("poll", "--store", store, "--start", "2100-01-01", "--once")
    assert (ended.status, ended.stdout) == (2, "")
    assert "2100-01-01T00:00:00 is in the future" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        ((), 1),
        (("--updated-after", "beginning"), 1),
        (("--updated-after", "2026-01-01"), 2),
        (("--updated-after", "60d"), 2),
        (("--updated-after", "60d", "--updated-before", "1d"), 2),
    ],
    ids=["no-span", "beginning", "after", "back", "between"],
)
@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_a_few_applications_are_one_page(
    cli: Cli, service: IncomeService, arguments: tuple[str, ...], most: int, limit: int
) -> None:
    """Any applications of the span will do, so no window is split to find all of them."""
    ended = cli.at(service)("applications", "-q", "--limit", str(limit), *arguments)
    assert ended.status == 0
    assert len(set(ended.lines)) == len(ended.lines) == limit
    assert set(ended.lines) <= set(service.ids)
    assert len(service.requests.of("list_applications")) <= most


def test_a_limit_above_what_there_is_lists_everything(cli: Cli, service: IncomeService) -> None:
    """A page with fewer rows than were asked for proves nothing, and the whole span is walked."""
    span = ("--updated-after", "3h")
    every = cli.at(service)("applications", "-q", *span)
    some = cli.at(service)("applications", "-q", "--limit", "1000", *span)
    assert 0 < len(every.lines) < 1000
    assert sorted(some.lines) == sorted(every.lines)


def test_a_limited_list_keeps_to_the_span_where_windows_are_narrowed(cli: Cli) -> None:
    """A service that narrows wide windows is still asked until there are enough rows."""
    with IncomeService(500, max_span=86_400) as service:
        span = ("--updated-after", "2026-06-01", "--updated-before", "2026-06-20")
        every = cli.at(service)("applications", "-q", *span)
        few = cli.at(service)("applications", "-q", "--limit", "50", *span)
    assert len(few.lines) == 50
    assert set(few.lines) < set(every.lines)
