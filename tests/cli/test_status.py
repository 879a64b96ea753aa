"""``income-client status``: what it shows of a store, and the exit status that a monitor sees."""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve

from income_client import DeadLetter, SQLiteCheckpointStore
from income_client.cli import status as status_module
from income_client.polling.checkpoint import Checkpoint
from income_client.polling.lateness import Lateness
from income_client.records import Window
from income_client.records.window import EPOCH
from income_client.testing import LoopRunner
from tests.support.cli import Cli, Running
from tests.support.processes import Ran, Terminal

NOW: Final = datetime(2026, 6, 30, 12)  # noqa: DTZ001 - the service's times carry no zone
SECOND: Final = (NOW - EPOCH) // timedelta(seconds=1)
HOLDER: Final = "web-1/4242/0123456789abcdef"
KEPT: Final = Checkpoint(since=0, reached=SECOND - 75, settle=60, holder=HOLDER)
pytestmark = pytest.mark.income_service(applications=1, time_flows=False)


def letter(number: int, reason: str, window: Window | None = None) -> DeadLetter:
    return DeadLetter(
        application_id=None if window else f"app-{number}",
        window=window or Window(SECOND - 100, SECOND - 99),
        reason=reason.format(number),
        attempts=1,
        first_tried_at=NOW - timedelta(seconds=100),
        last_tried_at=NOW - timedelta(seconds=100 - number),
    )


def late(seconds: int, *, updates: int = 8) -> Lateness:
    lateness = Lateness()
    for number in range(updates):
        lateness.note(0 if number else seconds, SECOND)
    return lateness


class Store:
    """A file of checkpoints, and the command that is asked about it."""

    def __init__(self, shell: Cli, run: LoopRunner) -> None:
        self.path: Final = shell.folder / "polls.db"
        self.checkpoints: Final = SQLiteCheckpointStore(self.path)
        self._shell = shell
        self._run = run

    def save(
        self, checkpoint: Checkpoint | str, *letters: DeadLetter, name: str = "lending"
    ) -> None:
        text = checkpoint if isinstance(checkpoint, str) else checkpoint.text
        version = self._run(self.checkpoints.load(name)).version
        self._run(self.checkpoints.save(name, text, version=version, dead_letters=letters))

    def ask(self, *arguments: str, **options: Any) -> Ran:
        return self._shell("status", "--store", "polls.db", *arguments, **options)

    def lease(self, **options: Any) -> Any:
        """Return the lease of the only name."""
        (found,) = json.loads(self.ask("-o", "json", **options).stdout)
        return found["lease"]


@pytest.fixture
def store(shell: Cli, income_run: LoopRunner) -> Store:
    return Store(shell, income_run)


def test_all_names_are_drawn(store: Store) -> None:
    """On 80 columns; reasons are counted without ids, and the reader sees what to do."""
    store.save(
        evolve(KEPT, lateness=late(31)),
        letter(1, "NotFoundError: get_application(app-{}): 404 Not Found"),
        letter(2, "NotFoundError: get_application(app-{}): 404 Not Found"),
        letter(3, "more rows than one page holds", Window(SECOND - 500, SECOND - 499)),
    )
    store.save(evolve(KEPT, lease=0.0, lateness=late(0)), name="reports")
    ran = store.ask(terminal=Terminal(rows=40))
    assert ran.status == 0
    assert Terminal(rows=40).standing(ran.screen) == [
        "lending in polls.db",
        "  reached       2026-06-30 11:58:45, 1 min 15 s behind the service",
        "  lease         none, without standbys; saved last by process 4242 on web-1",
        "  late          listed up to 31 s late in 24 h; settle is 60 s: give the poller",
        "                a greater settle",
        "  dead letters  3, next try at 2026-06-30 11:59:21",
        "                2 x get_application: 404 Not Found",
        "                1 x more rows than one page holds",
        "  saturated     2026-06-30 11:51:40",
        "",
        "reports in polls.db",
        "  reached       2026-06-30 11:58:45, 1 min 15 s behind the service",
        "  lease         released by process 4242 on web-1: nobody polls",
        "  late          none of 8 updates in 24 h; settle is 60 s",
        "  dead letters  none",
    ]


def test_a_long_list_is_cut(store: Store) -> None:
    """Seven reasons and seconds are drawn as five and a count; JSON has all."""
    seconds = [Window(SECOND - number, SECOND - number + 1) for number in range(7)]
    store.save(KEPT, *(letter(n, f"reason {n}", window) for n, window in enumerate(seconds)))
    ran = store.ask()
    assert "and 2 other reasons" in ran.stdout
    assert "and 2 other seconds" in ran.stdout
    (found,) = json.loads(store.ask("-o", "json").stdout)
    assert (len(found["reasons"]), len(found["saturated"])) == (7, 7)


def test_programs_read_json(store: Store) -> None:
    """An array with one object for each name."""
    store.save(evolve(KEPT, lateness=late(3)), letter(1, "DecodeError: application.id is missing"))
    ran = store.ask("-o", "json")
    assert (ran.status, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == [
        {
            "name": "lending",
            "reached": "2026-06-30T11:58:45",
            "lag": 75.0,
            "lease": {"state": "none", "seconds": None, "machine": "web-1", "process": 4242},
            "late": {"greatest": 3, "updates": 8, "settle": 60},
            "dead_letters": 1,
            "reasons": [{"reason": "application.id is missing", "count": 1}],
            "next_try_at": "2026-06-30T11:59:21",
            "saturated": [],
            "problems": [],
        }
    ]


def test_nothing_is_written(store: Store) -> None:
    """Neither in a store that exists, nor in place of one that does not."""
    store.save(evolve(KEPT, lease=0.05), letter(1, "gone"))
    before = store.path.read_bytes()
    store.ask()
    assert store.path.read_bytes() == before
    for line, said in (
        (("--store", "pols.db"), "there is no store at pols.db"),
        (("--store", "polls.db", "--name", "landing"), "no poller 'landing' in polls.db"),
    ):
        ran = store._shell("status", *line)
        assert (ran.status, ran.stdout) == (1, "")
        assert ran.stderr == f"income-client: {said}\n"
    assert not (store.path.parent / "pols.db").exists()


# The lease


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_module, "_LOOKS", 3_000)


def saving(path: Path, checkpoint: Checkpoint) -> Callable[[Running], None]:
    """Return what saves in another thread until the command has ended."""

    async def save(running: Running) -> None:
        checkpoints = SQLiteCheckpointStore(path)
        while not running.has_ended:
            version = (await checkpoints.load("lending")).version
            await checkpoints.save("lending", checkpoint.text, version=version)

    return lambda running: asyncio.run(save(running))


@pytest.mark.usefixtures("quick_looks")
@pytest.mark.parametrize(("lease", "state"), [(20.0, "held"), (0.0, "released"), (None, "none")])
def test_a_lease_that_changes_is_seen(store: Store, lease: float | None, state: str) -> None:
    """The leader renews it, releases it, or is replaced by a poller without standbys."""
    store.save(evolve(KEPT, lease=20.0))
    found = store.lease(during=saving(store.path, evolve(KEPT, lease=lease)))
    assert found == {"state": state, "seconds": lease, "machine": "web-1", "process": 4242}


def test_a_lease_that_is_not_renewed_has_expired(store: Store) -> None:
    """Nobody polls then, which a monitor sees in the exit status."""
    store.save(evolve(KEPT, lease=0.05))
    ran = store.ask()
    assert ran.status == 1
    assert "expired: process 4242 on web-1 has not renewed it for" in ran.stdout
    assert ran.stderr == (
        "income-client: 'lending': the lease has expired: no process of the name could renew it\n"
    )


def test_a_long_lease_is_not_watched_to_its_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease may be held all the same, so the command ends with 0."""
    monkeypatch.setattr(status_module, "_WATCH_SECONDS", 0.05)
    store.save(evolve(KEPT, lease=600.0))
    ran = store.ask()
    assert (ran.status, ran.stderr) == (0, "")
    assert "process 4242 on web-1 has not renewed it for 0.1 s of 10 min" in ran.stdout


def test_checkpoints_of_earlier_versions_are_read(store: Store) -> None:
    """Checkpoints of earlier versions name neither a holder nor the service."""
    store.save(evolve(KEPT, holder=None, settle=None))
    ran = store.ask()
    assert "none, without standbys; saved last by a poller" in ran.stdout
    assert "late          no new update in 24 h\n" in ran.stdout
    assert store.lease()["machine"] is None


# Limits


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        (("--max-lag", "75", "--max-dead-letters", "1"), None),
        (("--max-lag", "74"), "1 min 15 s behind the service, more than 1 min 14 s"),
        (("--max-dead-letters", "0"), "1 dead letter, more than 0"),
    ],
)
def test_limits_decide_the_exit_status(
    store: Store, limits: tuple[str, ...], problem: str | None
) -> None:
    store.save(KEPT, letter(1, "gone"))
    ran = store.ask(*limits)
    assert ran.status == (0 if problem is None else 1)
    assert ran.stderr == ("" if problem is None else f"income-client: 'lending': {problem}\n")


def test_a_damaged_checkpoint_hides_no_other_one(store: Store) -> None:
    store.save(KEPT, name="a")
    store.save("damaged", name="b")
    ran = store.ask()
    assert ran.status == 1
    assert "1 min 15 s behind" in ran.stdout
    said = "the checkpoint was not written by a poller, or is damaged"
    assert ran.stderr == f"income-client: 'b': {said}\n"
    assert said in ran.stdout


# The service


def test_the_lag_is_left_out_where_no_service_is_configured(store: Store, cli: Cli) -> None:
    """The rest is shown; whoever has set a limit hears of it at once."""
    store.save(KEPT)
    ran = cli("status", "--store", "polls.db")
    assert ran.status == 0
    assert "2026-06-30 11:58:45\n" in ran.stdout
    assert ran.stderr.startswith("income-client: the lag is not known: set INCOME_BASE_URL")
    ran = cli("status", "--store", "polls.db", "--max-lag", "60")
    assert (ran.status, ran.stdout) == (2, "")


@pytest.mark.usefixtures("without_pauses")
def test_a_service_that_fails_hides_nothing_else(store: Store) -> None:
    """A lag that is not known exceeds any limit."""
    store.save(KEPT)
    store._shell.service.faults.add("list_applications: 500 x999")
    ran = store.ask("--max-lag", "600")
    assert ran.status == 1
    assert "2026-06-30 11:58:45\n" in ran.stdout
    first, last = ran.stderr.splitlines()
    assert first.startswith("income-client: the lag is not known: list_applications: 500")
    assert last == "income-client: 'lending': the lag is not known"


def test_a_clock_that_was_set_back_shortens_the_lag(store: Store) -> None:
    """The next poll begins before the time that was reached."""
    store.save(evolve(KEPT, reached=SECOND + 600, resumes_at=SECOND - 90))
    assert "1 min 30 s behind the service" in store.ask().stdout


def test_another_account_has_no_lag(store: Store, shell: Cli) -> None:
    """The poller reads another service than the one that this machine is configured for."""
    store.save(evolve(KEPT, service="of another one"))
    ran = store.ask()
    assert ran.status == 0
    assert ran.stderr == (
        "income-client: 'lending' reads another address or account: its lag is not known\n"
    )
    polled = shell("poll", "--store", "polls.db", "--name", "other", "--once")
    assert polled.status == 0
    (found,) = json.loads(store.ask("--name", "other", "-o", "json").stdout)
    assert found["lag"] == 60.0
