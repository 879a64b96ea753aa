"""An audit finds what is missing, stale and unlisted, and nothing else, whatever changes."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from attrs import define, field
from hypothesis import assume, given
from hypothesis import strategies as st

from income_client import Audit
from income_client.audit import Auditor
from income_client.http.endpoints import Request, Response
from income_client.http.replies import failure_of
from income_client.instrumentation import Instrumentation
from tests.support import server
from tests.support.listing import ListService
from tests.support.walk_data import BASE, LIMITS, WALKERS, listings

START: Final = datetime(1970, 1, 1, tzinfo=UTC)


@define
class DrySession:
    """Makes list calls of a service without a socket."""

    service: ListService
    instrumentation: Instrumentation = field(factory=Instrumentation)

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
    auditor = Auditor(
        session=DrySession(service),  # type: ignore[arg-type]
        zone=UTC,
        clock=service.clock,
        **{"settle": 5, "extra_calls": None, "concurrency": 4, "limit": 10} | options,
    )
    return asyncio.run(auditor.run(held, after, before))


def at(second: float) -> datetime:
    """Return a time of the service."""
    return START + timedelta(seconds=second)


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
    """What was updated or deleted since."""
    left: int = 15

    def happen(self) -> None:
        """Update, register and delete some applications, and advance the clock."""
        service, chance = self.service, self.service.chance
        for due in [one for one in self.pending if one[0] <= service.now]:
            self.pending.remove(due)
            if due[1] in service.rows:
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
    history = History(service, limit, settle, {}, began=dict(service.rows))
    chance, now = service.chance, service.now
    for key, second in service.rows.items():
        drift = chance.choice(["none"] * 6 + ["stale", "missing", "late", "finer"])
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
    """All that was so when it began and stays so is found; what changes is no false alarm."""
    history = data.draw(histories(limit))
    service, held = history.service, dict(history.held)
    now = service.now
    # To go through all time since 1970 in short windows takes too many.
    first = None if service.rules.widest is None else BASE - 1
    after = data.draw(st.sampled_from([first, first, BASE, now - 8]), "after")
    before = data.draw(st.sampled_from([None, None, now - 9, now + 100]), "before")
    extra_calls = data.draw(st.sampled_from([None, None, 0, 2]), "extra calls")
    due = (now if before is None else min(now, before)) - history.settle
    assume(after is None or after < due - 3)
    audit = audited(
        service,
        history.read(),
        after,
        before,
        settle=history.settle,
        extra_calls=extra_calls,
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
        assert key not in began or key not in service.rows
        assert since < held[key] < until
    if audit.saturated:
        return
    # All is reported that was and stays so.
    unseen = 0
    waiting = {key for _, key, _ in history.pending}
    settled = began.keys() & service.rows.keys() - history.changed - waiting
    for key in settled:
        if since + 1 < began[key] < until - 1 and began[key] == service.rows[key]:
            assert (key in audit.missing) == (key not in held), key
            if key in held and began[key] - math.ceil(held[key]) > 2 and key not in stale:
                unseen += 1
    assert unseen <= audit.undecided
    assert not unseen or extra_calls is not None or service.rules.oldest
    for key in held.keys() - began.keys():
        assert (key in audit.unlisted) == (since < held[key] < until), key
