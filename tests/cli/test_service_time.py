"""Spans that begin or end at the service's present, where it cuts long windows short."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from income_client.testing import IncomeService
from tests.support.beside import beside
from tests.support.cli import Cli, Ran
from tests.support.fronts import changing

DAY: Final = 86_400
APPLICATIONS: Final = 60
Command = Callable[[Cli, Path], list[str]]


def exported(cli: Cli, folder: Path) -> list[str]:
    """Export everything there is; return the ids in the file."""
    target = folder / "all.jsonl"
    done(cli("export", "--no-documents", "--to", str(target)))
    manifest = json.loads(target.with_name("all.jsonl.manifest.json").read_text("utf-8"))
    assert manifest["whole"]
    assert manifest["next_updated_after"] == "2026-06-30T11:59:55"
    return ids_in(target.read_text("utf-8"))


def exported_lately(cli: Cli, folder: Path) -> list[str]:
    """Export what was updated in the last 30 days; return the ids in the file."""
    target = folder / "lately.jsonl"
    done(cli("export", "--no-documents", "--to", str(target), "--updated-after", "30d"))
    return ids_in(target.read_text("utf-8"))


def listed(cli: Cli, _folder: Path) -> list[str]:
    """List what was updated in the last 30 days; return the ids."""
    return done(cli("applications", "-q", "--updated-after", "30d")).lines


def listed_between(cli: Cli, _folder: Path) -> list[str]:
    """List what was updated from one day to another; return the ids."""
    span = ("--updated-after", "2026-06-01", "--updated-before", "2d")
    return done(cli("applications", "-q", *span)).lines


def polled(cli: Cli, folder: Path) -> list[str]:
    """Poll once, from 30 days ago; return the ids."""
    store = ("--store", str(folder / "polls.db"))
    return ids_in(done(cli("poll", *store, "--start", "30d", "--once")).stdout)


COMMANDS: Final[dict[str, Command]] = {
    "export": exported,
    "export since": exported_lately,
    "applications since": listed,
    "applications between": listed_between,
    "poll since": polled,
}


def done(ran: Ran) -> Ran:
    """Make sure that a command succeeded."""
    assert ran.status == 0, ran.stderr
    return ran


def ids_in(lines: str) -> list[str]:
    """Return the ids of applications in lines of JSON."""
    found = [json.loads(line) for line in lines.splitlines()]
    return [line.get("application", line)["application_id"] for line in found]


def without_date(piece: bytes) -> bytes:
    """Take the Date header out of a reply."""
    return piece.replace(b"\r\nDate: ", b"\r\nX-Was: ")


def found_by(
    command: str, cli: Cli, folder: Path, *, has_date: bool = True, **rules: Any
) -> list[str]:
    """Run a command at a service with these rules; return the ids that it found, sorted."""
    folder.mkdir()
    with ExitStack() as stack:
        service = stack.enter_context(IncomeService(APPLICATIONS, **rules))
        away = cli.at(service)
        if not has_date:
            port = stack.enter_context(beside(changing(service.url, replies=without_date)))
            url = f"http://127.0.0.1:{port}"
            away = Cli(cli.folder, {**away.environment, "INCOME_BASE_URL": url})
        return sorted(COMMANDS[command](away, folder))


@pytest.mark.usefixtures("without_pauses")
@pytest.mark.parametrize(
    ("span_clamp", "future", "has_date"),
    [
        ("before", "accept", False),
        ("before", "clamp", True),
        ("before", "refuse", False),
        ("after", "refuse", True),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_widest_window_changes_nothing(
    command: str, span_clamp: str, future: str, has_date: bool, cli: Cli, tmp_path: Path
) -> None:
    """The command finds what it finds at a service that answers for every window in full."""
    expected = found_by(command, cli, tmp_path / "full")
    assert len(expected) in (range(1, APPLICATIONS) if command != "export" else [APPLICATIONS])
    found = found_by(
        command,
        cli,
        tmp_path / "narrow",
        has_date=has_date,
        max_span=400 * DAY,
        span_clamp=span_clamp,
        future=future,
    )
    assert found == expected


@pytest.mark.usefixtures("without_pauses")
@pytest.mark.parametrize("clock_offset", [30, 7_200])
def test_a_date_that_is_ahead_changes_nothing(clock_offset: int, cli: Cli, tmp_path: Path) -> None:
    """The earlier of the two clocks counts."""
    for command in ("export", "applications since"):
        expected = found_by(command, cli, tmp_path / f"full {command}")
        rules: Any = {"max_span": 400 * DAY, "span_clamp": "before", "clock_offset": clock_offset}
        assert found_by(command, cli, tmp_path / f"narrow {command}", **rules) == expected
