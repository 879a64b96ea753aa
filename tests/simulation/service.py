"""The service as a model: updates, a list that shows them late, replicas, clocks, bad replies.

`Rules` are drawn for each run, within what the contract leaves open and the guide allows for.
"""

import json
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

from attrs import define, field, frozen

from income_client import BasicAuth
from income_client.errors import TransportError
from income_client.http.endpoints import Request, Response, addresses
from income_client.http.faults import SILENT, ConnectionFault
from income_client.http.session import SessionManager, open_session
from income_client.http.transport import SocketLimits, Transport
from income_client.records.window import EPOCH

from .applications import Application, Version, body_of, documents_of, row_of, stamp_of
from .loops import EPOCH_OF_RUNS, FOREVER, Machine, MachineClock, World
from .zones import UTC_ZONE, Zone

T = TypeVar("T")

_RESET: Final = ConnectionFault("connection reset")
_CUT: Final = ConnectionFault("body cut short")
_OF_RECORDS: Final = ("invalid", "failing")
_OF_ROWS: Final = ("invalid row", "row without an id")
_USUAL_WAY: Final = 0.02
"""Seconds of one way to the service, at most."""
_SLOW_WAYS: Final = (2.0, 12.0, 70.0)


@frozen(kw_only=True)
class Rules:
    """The behaviour of the service during a whole run."""

    lower_closed: bool
    upper_closed: bool
    order: str
    future: str
    """Treatment of bounds in the future: accept, clamp or refuse."""
    max_span: int | None
    """Seconds of the longest window that it applies."""
    date_ahead: int | None
    """Seconds by which `Date` runs ahead of service time; None: there is no such header."""
    latest: float
    """Seconds that an update may take to show in the list."""
    oldest_read: float
    """Seconds by which a replica that answers may be behind."""

    @classmethod
    def drawn(cls, chance: random.Random, settle: float) -> "Rules":
        """Draw rules with which a poller of this ``settle`` has to cope."""
        late = settle * chance.choice((0, 0, chance.random(), 1))
        return cls(
            lower_closed=chance.random() < 0.5,
            upper_closed=chance.random() < 0.5,
            order=chance.choice(("ascending", "descending", "random")),
            future=chance.choice(("accept", "clamp", "refuse")),
            max_span=chance.choice((None, None, None, 86_400, 3_600)),
            date_ahead=chance.choice((0, 0, 0, 2, -2, None)),
            latest=late,
            oldest_read=(settle - late) * chance.choice((0, 0, 0, chance.random(), 1)),
        )


@define
class Trouble:
    """Shares of requests that are answered badly, while it lasts."""

    status: float = 0.0
    throttled: float = 0.0
    refused: float = 0.0
    lost: float = 0.0
    cut: float = 0.0
    slow: float = 0.0


@define(eq=False)
class SimulatedService:
    """The service on its own machine."""

    world: World
    rules: Rules
    has_documents: bool = False
    """Whether an update may change the documents of an application and nothing else."""
    zone: Zone = UTC_ZONE
    applications: dict[str, Application] = field(factory=dict)
    trouble: Trouble = field(factory=Trouble)
    lists: list[float] = field(factory=list)
    """Times at which list calls were answered."""
    refused: list[int] = field(factory=list)
    """The bounds, in seconds, that were refused since they lay in the future."""
    latest_listed: int = 0
    """The latest second that its clock has shown when it answered a list call."""
    failed_at: float = float("-inf")
    """End of the last request that may have got a wrong answer, or none."""
    _set_back: list[tuple[float, float]] = field(factory=list)
    _settings: list[tuple[float, float, bool]] = field(factory=lambda: [(0.0, 0.0, True)])
    """Of its clock in UTC: from when on, what it showed then, and whether it moves."""
    reported: dict[int, int] = field(factory=dict)
    """The second that the record of each version, by its number, reports as its last update."""

    def second_at(self, moment: float) -> int:
        """Return the second of its zone that its clock showed at a moment."""
        return self.zone.local_second(self.utc_second_at(moment))

    def utc_second_at(self, moment: float) -> int:
        """Return the second of UTC that its clock showed at a moment."""
        began = (one for one in reversed(self._settings) if one[0] <= moment)
        since, shown, moves = next(began, self._settings[0])
        return int(EPOCH_OF_RUNS + shown + (moment - since) * moves)

    @property
    def second(self) -> int:
        """The second of its zone that its clock shows."""
        return self.second_at(self.world.now)

    @property
    def _utc_second(self) -> int:
        return self.utc_second_at(self.world.now)

    @property
    def latest_second(self) -> int:
        """The latest second that its clock has ever shown."""
        moments = [at for at, *_ in self._settings] + self._changes_of_offset
        return max(self.second, *(self.second_at(at - 0.001) for at in moments))

    @property
    def set_back(self) -> list[tuple[float, float]]:
        """Times at which the service's local clock went back, with the number of seconds."""
        if self.zone.shift >= 0:
            return self._set_back
        changes = [(at, -float(self.zone.shift)) for at in self._changes_of_offset]
        return sorted(self._set_back + changes)

    @property
    def _changes_of_offset(self) -> list[float]:
        """The moments at which its clock has come to the change of its zone."""
        change, shown_last, moments = self.zone.changes_at - EPOCH_OF_RUNS, FOREVER, []
        ends = [since for since, *_ in self._settings[1:]] + [self.world.now]
        for (since, shown, moves), end in zip(self._settings, ends, strict=True):
            if shown_last < change <= shown:  # it stood still, and jumps
                moments.append(since)
            shown_last = shown + (end - since) * moves
            if shown < change <= shown_last:
                moments.append(since + change - shown)
        return moments

    def shows_twice(self, second: int, *, since: float = 0.0) -> bool:
        """Return whether the clock was set back behind a second, after a moment."""
        return any(
            0 <= second - self.second_at(at) <= seconds
            for at, seconds in self.set_back
            if since <= at
        )

    def is_saturated(self, second: int, page: int) -> bool:
        """Return whether a second may be called saturated, which pages of this size are read of.

        A closed bound brings the rows of the neighbour as well. If that is full, nothing tells
        who does not know the meaning of the bounds which of the two is.
        """
        near = range(second - self.rules.lower_closed, second + self.rules.upper_closed + 1)
        return any(self._rows_in(one) >= page for one in near)

    def _rows_in(self, second: int) -> int:
        """Return how many applications were ever updated in a second."""
        return sum(
            any(version.second == second for version in application.versions)
            for application in self.applications.values()
        )

    @property
    def is_standing(self) -> bool:
        """Whether its clock does not move."""
        return not self._settings[-1][2]

    def set_clock_back(self, seconds: float) -> None:
        """Set its clock back; in its zone that may be more or less, beside a change."""
        (_, shown, moves), before = self._shown(), self.zone.ahead_at(self._utc_second)
        self._settings.append((self.world.now, shown - seconds, moves))
        seconds += before - self.zone.ahead_at(self._utc_second)
        if seconds > 0:
            self._set_back.append((self.world.now, seconds))

    def stop_clock(self) -> None:
        """Have its clock stand still."""
        self._settings.append((self.world.now, self._shown()[1], False))

    def release_clock(self) -> None:
        """Have a clock that stands still jump to where it would be."""
        if self.is_standing:
            since, shown, _ = self._settings[-1]
            self._settings.append((self.world.now, shown + self.world.now - since, True))

    def _shown(self) -> tuple[float, float, bool]:
        since, shown, moves = self._settings[-1]
        return since, shown + (self.world.now - since) * moves, moves

    def touch(self, application_id: str, *, ago: float = 0.0) -> Version:
        """Update an application, or make it."""
        application = self.applications.setdefault(application_id, Application(application_id))
        utc_second = self._utc_second - int(ago)
        late = self.rules.latest * self.world.chance.choice((0, self.world.chance.random(), 1))
        version = Version(
            application_id,
            len(self.reported) + 1,
            made_at=self.world.now - ago,
            second=self.zone.local_second(utc_second),
            utc_second=utc_second,
            listed_at=self.world.now - ago + late,
        )
        version.parts = self._parts_of(application, version.number)
        application.versions.append(version)
        # Of documents that are updated alone, the application's record reports nothing.
        own = version.parts[0]
        self.reported[version.number] = self.reported.get(own, version.second)
        self.world.note("service", f"updates {version}, listed {late:.2f} s later", application_id)
        return version

    def _parts_of(self, application: Application, number: int) -> tuple[int, int]:
        """Draw what an update changes: the application itself, its documents, or both."""
        if not (application.versions and self.has_documents):
            return number, number
        own, documents = application.latest.parts
        changed = self.world.chance.choice(("own", "documents", "both"))
        return (
            own if changed == "documents" else number,
            documents if changed == "own" else number,
        )

    async def send(self, machine: Machine, request: Request, silence: float) -> Response:
        """Answer a request over a network that delays and loses."""
        chance, trouble = self.world.chance, self.trouble
        application = self.applications.get(request.subject or "")
        defect = None if application is None else application.defect
        is_troubled = trouble != Trouble() or defect in ("failing", "silent")
        way = chance.choice(_SLOW_WAYS) if chance.random() < trouble.slow else _USUAL_WAY
        future = self.world.ask(
            machine,
            lambda: self._answer(request),
            there=chance.random() * way,
            back=chance.random() * way,
            is_lost=chance.random() < trouble.lost / 2 or defect == "silent",
            is_reply_lost=chance.random() < trouble.lost / 2,
        )
        timer = machine.call_later(silence, machine.take, future, None, SILENT.error(request))
        try:
            response: Response = await future
        finally:
            timer.cancel()
            if is_troubled:
                self.failed_at = self.world.now
                if application is not None:
                    application.failed_at = self.world.now
        return response

    def _answer(self, request: Request) -> Response:
        chance, trouble, count = self.world.chance, self.trouble, self.world.count
        if chance.random() < trouble.cut:
            count("service: reply cut")
            raise self._broken(request)
        if chance.random() < trouble.status:
            count("service: 5xx")
            return self._reply(chance.choice((500, 502, 503)))
        if chance.random() < trouble.throttled:
            count("service: 429")
            return self._reply(429, {"retry-after": str(chance.choice((0, 1, 7, 40)))})
        if chance.random() < trouble.refused:
            count("service: 401")
            return self._reply(401)
        return self._list(request) if request.subject is None else self._read(request)

    def _broken(self, request: Request) -> TransportError:
        return self.world.chance.choice((_RESET, _CUT)).error(request)

    def _reply(
        self, status: int, headers: Mapping[str, str] | None = None, body: Any = None
    ) -> Response:
        fields = {"content-type": "application/json", **(headers or {})}
        if self.rules.date_ahead is not None:
            moment = datetime.fromtimestamp(self._utc_second + self.rules.date_ahead, UTC)
            fields["date"] = format_datetime(moment, usegmt=True)
        return Response(status=status, headers=fields, body=json.dumps(body).encode())

    def _list(self, request: Request) -> Response:
        now, rules = self.second, self.rules
        asked = parse_qs(request.query)
        limit = int(asked["limit"][0])
        bounds = [_second_of(asked.get(name)) for name in ("updated_after", "updated_before")]
        latest = max((one for one in bounds if one is not None), default=0)
        if rules.future == "refuse" and latest > now:
            self.world.count("service: future bound refused")
            self.refused.append(latest)
            return self._reply(400)
        after = 0 if bounds[0] is None else bounds[0]
        before = now if bounds[1] is None else bounds[1]
        if rules.future == "clamp":
            after, before = min(after, now), min(before, now)
        if rules.max_span is not None and before - after > rules.max_span:
            self.world.count("service: window cut short")
            after = before - rules.max_span
        moment = self.world.now - rules.oldest_read * self.world.chance.random()
        rows = self._rows_between(after, before, moment)[:limit]
        self.world.count("service: full page" if len(rows) == limit else "service: page")
        self.lists.append(self.world.now)
        self.latest_listed = max(self.latest_listed, now)
        body = {"updated_after": stamp_of(after), "updated_before": stamp_of(before)}
        shown = [self._show(application) for application in rows]
        return self._reply(200, body=body | {"applications": shown})

    def _show(self, application: Application) -> dict[str, Any]:
        """Return a row of a page."""
        application.listed_at = self.world.now
        if application.defect in _OF_ROWS:
            self.world.count(f"service: {application.defect}")
        if application.defect == "row without an id":
            application.nameless_at = self.world.now
        return row_of(application.id, application.defect)

    def _rows_between(self, after: int, before: int, moment: float) -> list[Application]:
        rules, rows = self.rules, []
        for application in self.applications.values():
            shown = application.shown_at(moment)
            if shown is None or application.is_deleted:
                continue
            low, high = shown.second - after, before - shown.second
            if low >= (not rules.lower_closed) and high >= (not rules.upper_closed):
                rows.append((shown.second, application.id))
        rows.sort(reverse=rules.order == "descending")
        if rules.order == "random":
            self.world.chance.shuffle(rows)
        return [self.applications[application_id] for _, application_id in rows]

    def _read(self, request: Request) -> Response:
        application = self.applications.get(request.subject or "")
        moment = self.world.now - self.rules.oldest_read * self.world.chance.random()
        version = None if application is None else application.read_at(moment)
        if application is None:
            return self._reply(404)
        is_missing = application.is_deleted or application.defect == "missing"
        if is_missing or version is None or application.defect in _OF_RECORDS:
            application.failed_at = self.world.now
        if is_missing or version is None:
            self.world.count("service: 404")
            return self._reply(404)
        if application.defect in _OF_RECORDS:
            self.world.count(f"service: {application.defect} application")
        if application.defect == "failing":
            return self._reply(self.world.chance.choice((500, 503)))
        body = documents_of if request.name == "get_documents" else body_of
        # Parts that were not updated are as they were, with the time of their own last update.
        number = version.parts[body is documents_of]
        part = next(one for one in application.versions if one.number == number)
        return self._reply(200, body=body(part, application.defect))


class SimulatedTransport(Transport):
    """The transport of one process: its requests travel in virtual time."""

    def __init__(self, service: SimulatedService, machine: Machine) -> None:
        super().__init__(addresses("https://service.test"))
        self._service, self._machine = service, machine

    async def send(
        self,
        request: Request,
        headers: Mapping[str, str],
        limits: SocketLimits,
        read: Callable[[Response], T],
    ) -> T:
        """Send a request once, and return what is read from its reply."""
        return read(await self._service.send(self._machine, request, limits.read))


def session_of(service: SimulatedService, machine: Machine) -> SessionManager:
    """Return the session of a process, whose requests travel in virtual time."""
    return open_session(
        SimulatedTransport(service, machine),
        auth=BasicAuth("user", "password"),
        clock=MachineClock(machine),
        chance=service.world.chance.random,
    )


def _second_of(texts: list[str] | None) -> int | None:
    if texts is None:
        return None
    return int((datetime.fromisoformat(texts[0]) - EPOCH).total_seconds())
