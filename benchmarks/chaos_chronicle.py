"""The service's side of the story: each version that there was, and when, and each poll that began.

Its moments are counts of requests, since nothing else tells for certain what a
poll could see. Knows nothing of workers or of what they wrote.
"""

from collections.abc import Iterator
from typing import Final

from attrs import define, field, frozen

from income_client.emulator import Emulator, HttpRequest, RecordedRequest, Service

from .chaos_worker import POLL_HEADER, mark

_ROOT: Final = "/v1/income/applications"
_LEAST_DELAY: Final = 2
"""Seconds after which a version is listed for certain, whatever the bounds mean."""


@define(kw_only=True)
class Version:
    """One version of one application."""

    application_id: str
    """Whose it is."""
    number: int
    """How many there were before."""
    second: int
    """Service second at which it was made."""
    shown: int
    """Service second from which on the list shows it for certain."""
    made: int
    """Moment at which it was made."""
    gone: int | None = None
    """Moment at which another took its place."""
    gone_second: int | None = None
    """Service second of that moment."""


@frozen(kw_only=True)
class PollBegun:
    """A poll's first question, as the service saw it."""

    life: int
    """Of which worker."""
    moment: int
    """When."""
    second: int
    """Service second of that moment."""


@define
class Chronicle:
    """Writes down what happens at a service.

    Args:
        service: in which everything happens through this.
    """

    _service: Emulator
    versions: list[Version] = field(init=False, factory=list)
    polls: list[PollBegun] = field(init=False, factory=list)
    _marked: dict[tuple[str, str], int] = field(init=False, factory=dict)
    _current: dict[str, Version] = field(init=False, factory=dict)
    _passed: int = field(init=False, default=0)
    _reader: Service = field(init=False)

    def __attrs_post_init__(self) -> None:
        world = self._service.world
        self._reader = Service(world)
        for one in world.ids:
            self._begin(one, number=0, second=world.updated_at(one), delay=0)

    @property
    def moment(self) -> int:
        """The present moment."""
        return self._passed + len(self._service.requests)

    @property
    def last_versions(self) -> list[Version]:
        """What is current now, of every application."""
        return list(self._current.values())

    def touch(self, application_id: str) -> None:
        """Update an application."""
        self._note_marks(application_id)
        second = self._service.touch(application_id)
        before = self._current[application_id]
        before.gone, before.gone_second = self.moment, second
        delay = self._service.rules.visibility_delay
        self._begin(application_id, number=before.number + 1, second=second, delay=delay)

    def begun(self, life: int) -> list[PollBegun]:
        """Return the polls that began since the last `turn_page`."""
        first: dict[str, PollBegun] = {}
        for place, request in enumerate(self._service.requests):
            if _is_listing(request):
                moment = self._passed + place
                poll = PollBegun(life=life, moment=moment, second=request.time)
                first.setdefault(request.headers[POLL_HEADER], poll)
        return list(first.values())

    def turn_page(self, life: int) -> None:
        """Keep the polls of a life that has ended."""
        self.polls += self.begun(life)
        self._passed = self.moment
        self._service.requests.clear()

    def close(self) -> None:
        """Note how the replies look that are current now."""
        for one in self._current:
            self._note_marks(one)

    def number_of(self, application_id: str, text: str) -> int | None:
        """Return the number of the version that a mark is of."""
        return self._marked.get((application_id, text))

    def _begin(self, application_id: str, *, number: int, second: int, delay: int) -> None:
        version = Version(
            application_id=application_id,
            number=number,
            second=second,
            shown=second + max(delay, _LEAST_DELAY),
            made=self.moment,
        )
        self._current[application_id] = version
        self.versions.append(version)

    def _note_marks(self, application_id: str) -> None:
        for text in self._marks(application_id):
            number = self._current[application_id].number
            if self._marked.setdefault((application_id, text), number) != number:
                raise ValueError("two versions of an application look the same")

    def _marks(self, application_id: str) -> Iterator[str]:
        headers = {
            "host": "localhost",
            "authorization": self._reader.basic.authorization().reveal(),
        }
        for part in ("", "/documents"):
            path = f"{_ROOT}/{application_id}{part}"
            request = HttpRequest(method="GET", path=path, headers=headers)
            yield mark(self._reader.respond(request).body)


def _is_listing(request: RecordedRequest) -> bool:
    return request.path == _ROOT and request.status == 200 and "updated_after" in request.query
