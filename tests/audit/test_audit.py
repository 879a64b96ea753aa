"""An audit finds what is missing, stale and unlisted, and nothing else, whatever changes."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from attrs import define, field
from hypothesis import assume, given
from hypothesis import strategies as st

from income_client import ConfigurationError, IncomeClient, NotFoundError
from income_client.audit import Audit
from income_client.audit.auditor import Auditor
from income_client.audit.comparison import Comparison
from income_client.audit.held import HeldTimes
from income_client.emulator import Emulator
from income_client.events.instrumentation import Instrumentation
from income_client.http.endpoints import Request, Response
from income_client.http.page_cap import PageCap
from income_client.http.replies import failure_of
from income_client.records.window import Window
from income_client.testing import JumpingClock
from tests.support import server
from tests.support.canaries import held_by
from tests.support.listing import BASE, ListService, Rules, rows_at, serving
from tests.support.walks import LIMITS, MALFORMED, MEANINGS, WALKERS, listings, rows_of

START: Final = datetime(1970, 1, 1, tzinfo=UTC)


@define
class DrySession:
    """Makes list calls of a service without a socket."""

    service: ListService
    instrumentation: Instrumentation = field(factory=Instrumentation)
    clock: JumpingClock = field(factory=JumpingClock)
    page_cap: PageCap = field(factory=PageCap)

    async def call(self, request: Request, read: Callable[[Response], Any]) -> Any:
        """Ask the service, and read its reply."""
        asked = server.Request(head=f"GET {request.path}?{request.query} HTTP/1.1\r\n\r\n".encode())
        given = await self.service.answer(asked)
        headers = {name.lower(): value for name, value in given.headers.items() if value}
        response = Response(status=given.status, headers=headers, body=given.body)
        if given.status != 200:
            raise failure_of(request, response)
        return read(response)


def audited(
    service: ListService,
    held: Any,
    after: int | None = None,
    before: int | None = None,
    **options: Any,
) -> Audit:
    """Audit a service without a socket."""
    usual: dict[str, Any] = {"zone": UTC, "settle": 5, "margin": 1, "concurrency": 4, "limit": 10}
    auditor = Auditor(
        session=DrySession(service),  # type: ignore[arg-type]
        clock=service.clock,
        **usual | options,
    )
    return asyncio.run(auditor.run(held, after, before))


def at(second: float) -> datetime:
    """Return a time of the service."""
    return START + timedelta(seconds=second)


@contextlib.asynccontextmanager
async def emulated(**options: Any) -> AsyncIterator[tuple[Emulator, IncomeClient]]:
    """Run an emulated service of a page and a half of applications, and a client of it."""
    async with (
        Emulator(applications=1_500, seed=7, **options) as service,
        IncomeClient(service.url, auth=service.oauth2) as client,
    ):
        yield service, client


def held_in(service: Emulator) -> dict[str, datetime]:
    """Return all that a service has, with the times of the updates."""
    return {one: at(service.world.updated_at(one)) for one in service.world.ids}


@define
class History:
    """A service, what a poller holds of it, and what happens to both during an audit."""

    service: ListService
    limit: int
    settle: int
    held: dict[str, float]
    """The times held when the audit begins."""
    began: dict[str, int] = field(factory=dict)
    """The real update times then."""
    pending: list[tuple[int, str, int]] = field(factory=list)
    """Updates that the list does not show yet: from when on it does, of what, and their times."""
    changed: set[str] = field(factory=set)
    """Ids of applications that were updated or deleted during the audit."""
    left: int = 15

    def happen(self) -> None:
        """Update, register and delete some applications, and advance the clock."""
        service, chance = self.service, self.service.chance
        for due in [one for one in self.pending if one[0] <= service.now]:
            self.pending.remove(due)
            if due[1] in service.moving:
                service.rows[due[1]] = service.moving.pop(due[1])
            elif due[1] in service.rows:
                service.rows[due[1]] = max(due[2], service.rows[due[1]])
        if self.left and chance.random() < 0.4:
            self.left -= 1
            waiting = {key for _, key, _ in self.pending}
            still = sorted(service.ids - self.changed - waiting)
            crowd = sum(second == service.now for second in service.rows.values())
            if chance.random() < 0.2 and still:
                key = chance.choice(still)
                del service.rows[key]
                self.changed.add(key)
            elif chance.random() < 0.3 and still and crowd + len(waiting) < self.limit - 1:
                # Its old row is hidden at once, its new one shows within ``settle``.
                key = chance.choice(still)
                del service.rows[key]
                service.moving[key] = service.now
                shown = service.now + chance.randrange(self.settle)
                self.pending.append((shown, key, service.now))
                self.changed.add(key)
            elif crowd + len(waiting) < self.limit - 1:
                key = chance.choice([*still, f"new-{self.left}"])
                service.touch(key)
                self.changed.add(key)
        service.now += chance.choice([0, 0, 0, 1, 1, 3])

    async def read(self) -> AsyncIterator[tuple[str, datetime]]:
        """Give what is held by now: what was updated meanwhile is there within ``settle``."""
        for key in self.changed & self.service.ids:
            second = self.service.rows[key]
            if second <= self.service.now - self.settle + 1 or self.service.chance.random() < 0.5:
                self.held[key] = second
        entries = list(self.held.items())
        self.service.chance.shuffle(entries)
        for key, held_at in entries:
            yield key, at(held_at)
            if self.service.chance.random() < 0.1:
                yield key, at(held_at - self.service.chance.randrange(10_000))


@st.composite
def histories(draw: st.DrawFn, limit: int) -> History:
    """Draw a service, and what is held of it: most as it is listed, some not."""
    date_ahead = st.sampled_from([0, 0, None, -3])
    widest = st.sampled_from([None, None, 3_600])
    service = draw(listings(ListService, limit, [0, 5, 30], date_ahead=date_ahead, widest=widest))
    assume((service.now - BASE) / (service.rules.widest or service.now) < 30)
    settle = draw(st.sampled_from([1, 3, 20]))
    # Just before and behind the second up to which updates are due.
    for back in {settle, settle + 1, settle + 2, settle + 3, 9, 10}:
        if sum(second == service.now - back for second in service.rows.values()) < limit - 1:
            service.rows[f"edge-{back}"] = service.now - back
    history = History(service, limit, settle, {}, began=dict(service.rows))
    chance, now = service.chance, service.now
    for key, second in service.rows.items():
        kept = ["missing", "none"] if key.startswith("edge") else ["none"] * 6
        drift = chance.choice([*kept, "stale", "missing", "late", "finer"])
        history.held[key] = second
        if drift == "missing":
            del history.held[key]
        elif drift == "stale":
            history.held[key] = second - chance.choice([1, 2, 3, 5, 50, 4_000])
        elif drift == "finer":
            history.held[key] = second + 0.5
        elif drift == "late" and second < now:
            # Updated, and held, but listed where it was.
            updated = max(second, now - chance.randrange(settle))
            history.pending.append((updated + settle, key, updated))
            history.began[key] = updated
            if chance.random() < 0.5:
                history.held[key] = updated
    for number in range(chance.choice([0, 1, 5])):
        history.held[f"gone-{number}"] = BASE + chance.randrange(now - BASE + 1)
    service.before_answer = history.happen
    return history


@given(data=st.data(), limit=LIMITS, concurrency=WALKERS)
def test_an_audit_reports_each_drift_and_nothing_else(
    data: st.DataObject, limit: int, concurrency: int
) -> None:
    """Drift from before the audit that lasts is found; changes during the audit are no finding."""
    history = data.draw(histories(limit))
    service, held = history.service, dict(history.held)
    now = service.now
    # To go through all time since 1970 in short windows takes too many.
    first = None if service.rules.widest is None else BASE - 1
    after = data.draw(st.sampled_from([first, first, BASE, now - 8]), "after")
    before = data.draw(st.sampled_from([None, None, now - 9, now + 100]), "before")
    margin = data.draw(st.sampled_from([None, 1, 1, 4, 30.5]), "margin")
    due = (now if before is None else min(now, before)) - history.settle
    assume(after is None or after < due - 3)
    audit = audited(
        service,
        history.read(),
        after,
        before,
        settle=history.settle,
        margin=margin,
        concurrency=concurrency,
        limit=limit,
    )
    until = round((audit.until - START).total_seconds())
    since = 0 if audit.after is None else round((audit.after - START).total_seconds())
    assert until <= service.now - history.settle + service.rules.rounds_up
    assert before is None or until <= before
    assert after is None or since >= after - 1
    stale = {one.application_id: one for one in audit.stale}
    began = history.began
    # Nothing is reported that was not so.
    for key in audit.missing:
        assert key not in held
        assert began[key] <= until
    for key, one in stale.items():
        assert held[key] < one.listed_in.after <= began[key] <= until
        assert one.held_at == at(math.floor(history.held[key]))
    for key in audit.unlisted:
        assert key not in began or key not in service.rows.keys() | service.moving.keys()
        assert since < held[key] < until
    if audit.saturated:
        return
    # All is reported that was and stays so.
    unseen = 0
    waiting = {key for _, key, _ in history.pending}
    settled = began.keys() & service.rows.keys() - history.changed - waiting
    for key in settled:
        if since + 1 < began[key] < until and began[key] == service.rows[key]:
            assert (key in audit.missing) == (key not in held), key
            if key in held and key not in stale:
                # A second more, since nothing says on which side of a bound its own second is.
                passed_over = began[key] - math.ceil(held[key]) - 1
                assert passed_over <= audit.margin.total_seconds()
                unseen += passed_over > (margin or 1)
    assert unseen <= audit.undecided
    assert not unseen or margin is None or service.rules.oldest
    assert margin is None or audit.undecided or audit.margin.total_seconds() <= margin
    for key in held.keys() - began.keys():
        assert (key in audit.unlisted) == (since < held[key] < until), key


# Over sockets


@pytest.mark.parametrize("order", ["ascending", "random"])
async def test_a_margin_finds_what_was_updated_in_the_window_of_the_time_held(order: str) -> None:
    """The margin is a day by default; without one, the audit says how much it did not prove."""
    async with emulated(order=order) as (service, client):
        held = held_in(service)
        walk = client.list_applications()
        assert len([row async for row in walk]) == 1_500
        first, second = list(held)[500], list(held)[1_000]
        held[first] -= timedelta(hours=30)
        held[second] -= timedelta(hours=18)
        audit = await client.audit(held, margin=None)
        assert (audit.stale, audit.is_complete) == ((), True)
        assert audit.requests <= walk.progress.requests + 5
        assert 1_450 < audit.undecided <= 1_500
        assert timedelta(days=1) < audit.margin
        audit = await client.audit(held)
        assert first in {one.application_id for one in audit.stale} <= {first, second}
        assert (audit.undecided, audit.margin_asked) == (0, 86_400)
        assert audit.margin <= timedelta(days=1)
        # A call for each of 90 days at the most.
        assert audit.requests <= walk.progress.requests + 5 + 90
        audit = await client.audit(held, margin=43_200)
        assert {one.application_id for one in audit.stale} == {first, second}
        assert (audit.undecided, audit.margin_asked) == (0, 43_200)
        assert audit.margin <= timedelta(hours=12)
        assert (await client.audit(held_in(service), margin=43_200)).is_complete


async def test_the_span_of_an_audit_is_that_of_its_arguments() -> None:
    """Up to a minute ago, unless it is to end earlier."""
    async with emulated() as (service, client):
        held = held_in(service)
        lost, late, *_ = held
        del held[lost]
        held["app-deleted"] = datetime(2026, 5, 1)  # noqa: DTZ001 - the service's frame
        held["app-unknown"] = datetime(2027, 1, 1, tzinfo=UTC)
        service.touch(late)
        audit = await client.audit(held, concurrency=2)
        assert (audit.missing, audit.stale, audit.unlisted) == ((lost,), (), ("app-deleted",))
        assert (audit.drift, audit.held, audit.after) == (2, 1_501, None)
        assert audit.until < await client.service_time() - timedelta(seconds=60)
        earlier = await client.audit(held, updated_before="2026-05-01")
        assert earlier.until == datetime(2026, 5, 1, tzinfo=UTC)
        assert (earlier.stale, earlier.unlisted) == ((), ())
        recent = await client.audit(held, updated_after="2026-06-01")
        assert recent.after == datetime(2026, 6, 1, tzinfo=UTC)
        assert "app-deleted" not in recent.unlisted


def three_hundred(**options: Any) -> ListService:
    """Return a service whose applications were updated every seven seconds."""
    rows = rows_at([BASE + 7 * number for number in range(300)])
    return ListService(rows=rows, now=BASE + 5_000, **options)


@pytest.mark.parametrize("call", [0, 1, 4, 50, 104])
async def test_a_cancelled_audit_leaves_nothing(call: int) -> None:
    """The cancellation comes in the call for the present, in a walk, or in a later call."""
    service = three_hundred()
    service.holds = lambda _: len(service.queries) > call
    async with serving(service) as client:
        held = {key: at(second) for key, second in service.rows.items()} | {"gone": at(BASE + 9)}
        audit = asyncio.create_task(client.audit(held, margin=1))
        await service.quiet()
        assert service.held
        audit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await audit
        service.release()
        assert (await client.audit(held)).unlisted == ("gone",)


WANTED = (
    r"^held needs a datetime or ISO 8601 text as the time of entry 301$"
    r"|^held must be pairs such as \('app-1', record.last_updated_at\), but entry 301 "
    r"is of type \w+$"
)


@pytest.mark.shows_private("error", reason="the error of a time is replaced")
async def test_a_failure_ends_an_audit_and_what_it_read() -> None:
    """A list that is gone, entries that are none, and what their source raises."""
    closed: list[Any] = []

    async def entries(last: Any) -> AsyncIterator[Any]:
        try:
            for key, second in service.rows.items():
                yield key, at(second)
            yield last
        finally:
            closed.append(last)

    async def broken() -> AsyncIterator[Any]:
        yield "app-1", at(BASE)
        raise OSError("the database is gone")

    service = three_hundred()
    async with serving(service) as client:
        early = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
        bad = (
            *(("app-1", early), ("app-1", "S3CRET"), ("app-1", None)),
            *(("", at(1)), "ab", ("app-1",), 7),
        )
        for last in bad:
            with pytest.raises(ConfigurationError, match=WANTED) as caught:
                await client.audit(entries(last))
            assert caught.value.argument == "held"
            assert "S3CRET" not in held_by(caught.value)
        assert closed == list(bad)
        with pytest.raises(OSError, match="the database is gone"):
            await client.audit(broken())
        with pytest.raises(ConfigurationError, match="updated_after must be before 2023-"):
            await client.audit({}, updated_after="2023-12-01")
        service.twist = lambda query, page: 404 if query.before is None and query.after else page
        with pytest.raises(NotFoundError):
            await client.audit({})


def test_what_the_list_hides_is_not_taken_for_deleted() -> None:
    """Neither in a saturated second, nor in a row without an id, nor before all that is kept."""
    rows = rows_at([*range(BASE, BASE + 50), *[BASE + 20] * 12])
    held = {key: at(second) for key, second in rows.items()}
    hidden = {key for key, second in rows.items() if second == BASE + 20}
    held["app-early"], held["app-late"] = at(BASE + 5), at(BASE + 40)
    service = ListService(rows=rows, now=BASE + 100)
    audit = audited(service, held, BASE - 10)
    assert [str(second) for second in audit.saturated] == [
        "[2023-11-14T22:13:40, 2023-11-14T22:13:41)"
    ]
    assert audit.unlisted == ("app-late",)
    assert audit.undecided == 1 + len(rows) - audit.listed
    assert hidden
    assert not audit.is_complete
    service = ListService(rows=rows_at([*range(BASE, BASE + 50)]), now=BASE + 100)
    odd, nameless, *_ = [key for key, second in service.rows.items() if second >= BASE + 30]
    service.malformed = {odd: MALFORMED["no date"](odd), nameless: MALFORMED["no id"](nameless)}
    held = {key: at(second) for key, second in service.rows.items() if key != odd}
    held |= {"app-early": at(BASE + 5), "app-late": at(BASE + 45)}
    audit = audited(service, held, BASE - 10)
    assert (audit.missing, audit.unreadable) == ((odd,), 1)
    assert audit.unlisted == ("app-late",)
    assert audit.undecided == 2
    service = ListService(rows={}, now=BASE + 100, rules=Rules(oldest=BASE + 10))
    audit = audited(service, held)
    assert (audit.unlisted, audit.after) == (
        tuple(key for key in held if held[key] > at(BASE + 10)),
        at(BASE + 10),
    )


def test_what_is_held_has_many_forms() -> None:
    """Mappings and pairs; of an id given twice the newest time counts, in whatever form."""
    service = ListService(rows={"a": BASE, "b": BASE + 50}, now=BASE + 500)
    whole = {"a": at(BASE), "b": "2023-11-14T22:14:10"}
    old = ("b", "2023-11-14")
    forms = (
        whole,
        MappingProxyType(whole),
        whole.items(),
        [*whole.items(), old],
        [old, *map(list, whole.items())],
        iter([("a", at(BASE + 200)), ("b", at(BASE + 50).astimezone(ZoneInfo("Asia/Tokyo")))]),
    )
    for held in forms:
        audit = audited(service, held)
        assert audit.is_complete
        assert (audit.held, audit.listed, audit.undecided) == (2, 2, 0)
    audit = audited(service, [old])
    assert [one.application_id for one in audit.stale] == ["b"]
    assert audit.stale[0].held_at == datetime(2023, 11, 14, tzinfo=UTC)

    class Changing(dict[str, datetime]):
        """Something else is written, and removed, while it is read."""

        def get(self, key: str, default: Any = None) -> Any:
            self.pop("app-00000", None)
            self[f"new {len(self)}"] = at(BASE)
            return super().get(key, default)

    changing = Changing({key: at(BASE) for key in rows_at([BASE] * 3_000)})
    assert audited(service, changing, settle=0).held == 2_999


@pytest.mark.parametrize(
    ("hours", "in_future", "is_later"),
    [(0, 0, False), (5, 5, True), (-5, 0, False), (700_000, 50, False)],
    ids=["true", "5 h late", "5 h early", "a placeholder"],
)
def test_times_that_hide_updates_are_counted(hours: int, in_future: int, is_later: bool) -> None:
    """A local time stored as UTC is ahead: an update within that time would not be found."""
    service = ListService(
        rows=rows_at([BASE + 3600 * number for number in range(1, 51)]), now=BASE + 50 * 3600 + 60
    )
    held = {key: at(second + 3600 * hours) for key, second in service.rows.items()}
    audit = audited(service, held, margin=60)
    assert (audit.in_future, audit.later_than_listed > 0) == (in_future, is_later)
    assert audit.is_complete is (hours == 0)
    assert len(audit.stale) == (50 if hours < 0 else 0)


def test_an_update_that_comes_while_an_audit_begins_is_not_in_the_future() -> None:
    """The times held are read after the first reply of the service."""
    service = ListService(rows={"a": BASE, "b": BASE + 50}, now=BASE + 500)

    class Later(dict[str, datetime]):
        def get(self, key: str, default: Any = None) -> Any:
            if key == "a":
                service.now += 60
                service.touch(key)
                self[key] = at(service.now)
            return super().get(key, default)

    audit = audited(service, Later({"a": at(BASE), "b": at(BASE + 50)}))
    assert audit.is_complete
    assert (audit.in_future, audit.later_than_listed) == (0, 0)


@pytest.mark.parametrize("call", [3, 4])
@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "updated"])
def test_a_finding_that_changes_meanwhile_is_none(call: int, *, is_deleted: bool) -> None:
    """An application that was missing or stale is deleted or updated again during the audit."""

    def change() -> None:
        service.now += 1
        for key in found if len(service.queries) == call else ():
            if is_deleted:
                del service.rows[key]
            else:
                service.touch(key)

    service = ListService(rows=rows_at([*range(BASE, BASE + 5)]), now=BASE + 100)
    held = {key: at(second) for key, second in service.rows.items()}
    found = list(held)[2:4]
    del held[found[0]]
    held[found[1]] = at(BASE - 100)
    before = audited(service, held, BASE - 1)
    assert [*before.missing, *(one.application_id for one in before.stale)] == found
    service.queries.clear()
    service.before_answer = change
    audit = audited(service, held, BASE - 1)
    assert (audit.missing, audit.stale) == ((), ())
    assert (audit.unlisted, audit.is_complete) == ((), True)


def test_the_last_second_before_the_end_is_compared() -> None:
    """The end has a fraction of a second, or is a date, under each meaning of the bounds."""
    midnight = BASE - BASE % 86_400
    for meaning in MEANINGS.values():
        rows = {"app-1": midnight - 1, "app-2": midnight - 50, "app-3": midnight - 1}
        service = ListService(rows=rows, now=BASE + 500, rules=Rules(**meaning))
        held = {"app-2": at(midnight - 50), "app-3": at(midnight - 90)}
        audit = audited(service, held, None, midnight)
        assert (audit.missing, audit.until) == (("app-1",), at(midnight))
        assert [one.application_id for one in audit.stale] == ["app-3"]


def test_an_update_that_is_not_shown_yet_is_no_deletion() -> None:
    """The list hides the old row already; only ids unknown to the service count as deleted."""

    def move() -> None:
        for key in ("app-1", "app-2") if len(service.queries) == 2 else ():
            service.moving[key] = service.rows.pop(key) if key == "app-2" else service.now
            service.rows.pop(key, None)

    rows = {f"app-{number}": BASE + number for number in range(9)}
    service = ListService(rows=rows, now=BASE + 500, before_answer=move)
    held = {key: at(second) for key, second in rows.items()} | {"app-gone": at(BASE + 3)}
    held["a/b\n"] = at(BASE + 4)
    audit = audited(service, held)
    assert set(audit.unlisted) == {"app-gone", "a/b\n"}
    assert (audit.missing, audit.stale) == ((), ())
    assert audit.undecided == 1
    service.moving.clear()
    service.before_answer = lambda: None
    held |= {f"many-{number}": at(BASE + 5) for number in range(1_200)}
    audit = audited(service, held)
    assert len(audit.unlisted) == 1_000
    assert audit.undecided == len(held) - len(service.rows) - 1_000
    assert audit.requests < 1_100


@pytest.mark.parametrize("left", [0, 1, 30])
def test_clocks_that_go_back_meanwhile_make_no_finding(left: int) -> None:
    """An update in the repeated hour has time texts of the first pass, and there is no `Date`."""
    end = round((datetime(2026, 10, 25, 3, tzinfo=UTC) - START).total_seconds())
    rows = {"app-1": end - 90_000, "app-2": end - 90_001}
    rules = Rules(date_ahead=None, rounds_up=not left)
    service = ListService(rows=dict(rows), now=end - max(left, 1), rules=rules)

    async def read() -> AsyncIterator[tuple[str, datetime]]:
        for key, second in rows.items():
            yield key, at(second - 7_200)
        service.now = end - 3_600 + 5
        service.touch("app-1")
        service.touch("new")
        service.now += 1

    audit = audited(service, read(), zone=ZoneInfo("Europe/Berlin"))
    assert (audit.missing, audit.stale, audit.unlisted) == ((), (), ())
    assert (audit.listed, audit.undecided) == (1, 0)


def test_an_update_shortly_before_summer_time_began_is_not_due_yet() -> None:
    """An hour of times is skipped, which is no time in which the update could have been read."""
    change = round((datetime(2027, 3, 28, 2, tzinfo=UTC) - START).total_seconds())
    rows = {"app-1": change - 90_000, "new": change - 2}
    service = ListService(rows=rows, now=change + 3_601, rules=Rules(date_ahead=None))
    held = {"app-1": at(change - 93_600)}
    audit = audited(service, held, zone=ZoneInfo("Europe/Berlin"))
    assert (audit.missing, audit.stale, audit.unlisted) == ((), (), ())


def test_the_second_before_the_end_is_listed_by_some_walk() -> None:
    """Under each meaning of the bounds, no row of that second needs a call by its id."""
    for meaning in MEANINGS.values():
        for second in range(BASE + 40, BASE + 53):
            rules = Rules(**meaning)
            service = ListService(rows={"app-1": second}, now=BASE + 50, rules=rules)
            service.now = max(BASE + 50, second)
            audit = audited(service, {"app-1": at(BASE + 1)}, BASE, settle=3)
            assert (audit.unlisted, audit.requests) == ((), len(service.queries))


def test_rows_of_a_page_that_ends_later_than_asked_for_are_undecided() -> None:
    """Rows of such a page may have been updated since; the second walk lists those updates."""
    held = HeldTimes()
    held.add("app-old", BASE + 10, BASE + 10)
    comparison = Comparison(held, until=BASE + 100, margin=None)
    rows = rows_of({"app-new": BASE, "app-old": BASE})
    comparison.add_page(Window(BASE + 90, BASE + 110), rows)
    assert (comparison.missing, comparison.stale) == ({}, {})
    assert comparison.undecided() == (2, 0)
    comparison.add_recent(Window(BASE + 100, BASE + 120), rows)
    assert comparison.undecided() == (0, 0)
