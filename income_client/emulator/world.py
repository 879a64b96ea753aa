"""The applications of the emulated service by update time; knows no HTTP."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, Final

from attrs import field, frozen

from income_client.errors import ConfigurationError
from income_client.system.texts import parse_iso_time

from .service_rules import ServiceRules
from .times import DAY, START, second_of

_ID_BITS: Final = 40
_ID_MASK: Final = (1 << _ID_BITS) - 1
_STRIDE: Final = 0x9E3779B97D
_UNSTRIDE: Final = pow(_STRIDE, -1, 1 << _ID_BITS)
_ID_LENGTH: Final = 4 + _ID_BITS // 4
_LONGEST_NUMBER: Final = 12
_HEX: Final = frozenset("0123456789abcdef")


@frozen(kw_only=True)
class Touched:
    """The history of a changed application: its first second and its number of changes."""

    first: int
    """Service second of the application's first update."""
    version: int
    """Number of changes after the first update."""


@frozen
class DocumentFile:
    """The facts of a document that the file storage needs."""

    document_id: str
    file_name: str


@frozen
class Contents:
    """An application as the contents of the service's replies."""

    application: Mapping[str, Any] = field(repr=False)
    """Content of the application reply (contract section 2.2)."""
    documents: Mapping[str, Any] = field(repr=False)
    """Content of the documents reply (contract section 2.3); documents without ``url`` have a
    file here."""

    @property
    def application_id(self) -> str:
        """Id of the application."""
        return str(self.application["application_id"])

    @property
    def reference(self) -> str:
        """The partner's own reference."""
        return str(self.application["application_reference_id"])

    def all_documents(self) -> Iterator[Mapping[str, Any]]:
        """Iterate over the application's documents."""
        for documents in self.documents["documents"].values():
            yield from documents

    def files(self) -> Iterator[DocumentFile]:
        """Iterate over the files of documents without a URL of their own."""
        for document in self.all_documents():
            if not document.get("url"):
                name = document["document_id"]
                names = document.get("file_reference_ids", ())
                yield DocumentFile(name, next(iter(names), f"{name}.pdf"))


class World:
    """Invented applications, numbered from 0 by number and indexed by their last update.

    Applications that were added come behind them.

    Args:
        updates: for each invented application the service second of its last update.
        seed: a whole number; the same one gives the same ids and the same data.
        now: the present service second; 2026-06-30T12:00:00 unless given.
        rules: how the service behaves; may be replaced at any time.

    Attributes:
        seed: as given.
        now: the present service second.
        rules: how the service behaves.
        questions: list questions asked so far, which random order depends on.
    """

    def __init__(
        self,
        updates: Sequence[int],
        *,
        seed: int = 7,
        now: int | None = None,
        rules: ServiceRules | None = None,
    ) -> None:
        self.seed = seed
        self.now: int = second_of(START) if now is None else now
        self.rules: ServiceRules = rules or ServiceRules()
        self.questions = 0
        self._offset = (seed * 0x2545F4914F + 0x3C6EF372FE) & _ID_MASK
        self._updated = array("q", updates)
        numbers = sorted(range(len(self._updated)), key=self._updated.__getitem__)
        self._numbers = array("L", numbers)
        self._times = array("q", map(self._updated.__getitem__, numbers))
        self._invented = len(self._updated)
        self._added: list[Contents] = []
        self._number_by_id: dict[str, int] = {}
        self._number_by_reference: dict[str, int] = {}
        self._number_by_document: dict[str, int] = {}
        self._removed: set[int] = set()
        self._touched: dict[int, Touched] = {}
        self._listed_at: dict[int, int] = {}
        self._arrivals: list[tuple[int, int, int, int]] = []
        """Seconds at which updates show in the list, each with the application's number and
        version, and the second of the update."""
        self._listed_versions: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._updated) - len(self._removed)

    @property
    def ids(self) -> tuple[str, ...]:
        """All application ids.

        Applications that users added come last.
        """
        numbers = range(len(self._updated))
        if self._removed:
            return tuple(self.id_of(each) for each in numbers if each not in self._removed)
        return tuple(map(self.id_of, numbers))

    def id_of(self, number: int) -> str:
        """Return the id of an application's number."""
        if self._added and self._invented <= number < len(self._updated):
            return self._added[number - self._invented].application_id
        return f"app-{(number * _STRIDE + self._offset) & _ID_MASK:010x}"

    def number_of(self, application_id: str) -> int | None:
        """Return the number behind an ``application_id``, None if there is no such application."""
        number = self._numbered(application_id)
        return None if number in self._removed else number

    def number_or_error(self, application_id: str) -> int:
        """Return the number behind ``application_id``.

        Raises:
            ConfigurationError: there is no such application.
        """
        number = self.number_of(application_id)
        if number is None:
            raise ConfigurationError("the emulator has no application of this id")
        return number

    def _numbered(self, application_id: str) -> int | None:
        if application_id in self._number_by_id:
            return self._number_by_id[application_id]
        digits = application_id[4:]
        if len(application_id) != _ID_LENGTH or application_id[:4] != "app-":
            return None
        if not _HEX.issuperset(digits):
            return None
        number = (int(digits, 16) - self._offset) * _UNSTRIDE & _ID_MASK
        return number if number < self._invented else None

    def number_of_document(self, document_id: str) -> int | None:
        """Return the number of the application that may have ``document_id``, None for none."""
        if document_id in self._number_by_document:
            return self._number_by_document[document_id]
        kind, _, rest = document_id.partition("-")
        stem, _, place = rest.partition("-")
        is_invented = kind == "doc" and place.isascii() and place.isdecimal()
        return self.number_of(f"app-{stem}") if is_invented else None

    def reference_of(self, number: int) -> str:
        """Return the partner's own reference of an application's number."""
        if self._added and number >= self._invented:
            return self._added[number - self._invented].reference
        return f"LOAN-{number:08d}"

    def number_by_reference(self, reference: str) -> int | None:
        """Return the number behind a partner's reference, None if there is no such application."""
        if reference in self._number_by_reference:
            return self._number_by_reference[reference]
        digits = reference[5:]
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > _LONGEST_NUMBER:
            return None
        number = int(digits)
        is_invented = number < self._invented and reference == f"LOAN-{number:08d}"
        return number if is_invented and number not in self._removed else None

    def updated_at(self, application_id: str) -> int:
        """Return the second of the last update of ``application_id``, in the list already or not.

        Raises:
            ConfigurationError: there is no such application.
        """
        return self._updated[self.number_or_error(application_id)]

    def updated_second(self, number: int) -> int:
        """Return the service second of the last update of an application's number."""
        return self._updated[number]

    def listed_second(self, number: int) -> int:
        """Return the service second at which the list shows an application's number."""
        return self._listed_at.get(number, self._updated[number])

    def history(self, number: int) -> Touched:
        """Return an application's first second and its number of changes."""
        return self._touched.get(number) or Touched(first=self._updated[number], version=0)

    def applied_at(self, number: int) -> int:
        """Return the service second of a number's application date, before all updates."""
        if self._added and number >= self._invented:
            return _second_of_text(
                self._added[number - self._invented].application["application_date"]
            )
        return self.history(number).first - (number * 7919 + self.seed) % (3 * DAY)

    def added(self, number: int) -> Contents | None:
        """Return the contents added under an application's number; None for an invented one."""
        return self._added[number - self._invented] if number >= self._invented else None

    def add(
        self, application: Mapping[str, Any], documents: Mapping[str, Any] | None = None
    ) -> str:
        """Add an application, which is served as it is given.

        Args:
            application: the content of the application response (contract section 2.2).
            documents: the content of the documents response (contract section 2.3); no
                documents unless given. Documents without ``url`` have a file here.

        Returns:
            Its id.

        Raises:
            ConfigurationError: its id or reference is taken, ``last_updated_at`` lies in
                the future, or a field that the service needs is missing or invalid.
        """
        added, updated = _read_added(application, documents)
        if self.number_of(added.application_id) is not None:
            raise ConfigurationError("the service has an application of this id already")
        if self.number_by_reference(added.reference) is not None:
            raise ConfigurationError("the service has an application of this reference already")
        if updated > self.now:
            raise ConfigurationError(
                "last_updated_at lies after the service's present; give now=True, "
                "or an earlier time"
            )
        number = len(self._updated)
        self._added.append(added)
        self._number_by_id[added.application_id] = number
        self._number_by_reference[added.reference] = number
        self._updated.append(updated)
        place = bisect_right(self._times, updated)
        self._times.insert(place, updated)
        self._numbers.insert(place, number)
        self._index_files(number, added)
        return added.application_id

    def check_replacement(self, application_id: str, reference: str) -> int:
        """Return the number of an application that was added.

        Args:
            application_id: of which application.
            reference: its reference, which stays the same.

        Raises:
            ConfigurationError: no application of this id was added, or the reference differs.
        """
        number = self._number_by_id.get(application_id)
        if number is None:
            raise ConfigurationError("no application of this id was added")
        if self._number_by_reference.get(reference) != number:
            raise ConfigurationError("an application keeps its application_reference_id")
        return number

    def replace(
        self, application: Mapping[str, Any], documents: Mapping[str, Any] | None = None
    ) -> int:
        """Replace an added application by another version, which is updated now.

        Args:
            application: the new version, as in `add`.
            documents: its documents, as in `add`.

        Returns:
            The service second of the update.

        Raises:
            ConfigurationError: no application of this id was added, its reference differs,
                or a field is missing or invalid.
        """
        added, _ = _read_added(application, documents)
        number = self.check_replacement(added.application_id, added.reference)
        for file in self._added[number - self._invented].files():
            self._number_by_document.pop(file.document_id, None)
        self._added[number - self._invented] = added
        self._index_files(number, added)
        return self.touch(added.application_id)

    def touch(self, application_id: str) -> int:
        """Update the application ``application_id``: make a new version, and move its row.

        Returns:
            The service second of the update.

        Raises:
            ConfigurationError: there is no such application.
        """
        number = self.number_or_error(application_id)
        before = self.history(number)
        self._listed_at.setdefault(number, self._updated[number])
        version = before.version + 1
        self._touched[number] = Touched(first=before.first, version=version)
        self._updated[number] = self.now
        visible_at = self.now + self.rules.visibility_delay
        heappush(self._arrivals, (visible_at, number, version, self.now))
        self._show_arrivals()
        return self.now

    def remove(self, application_id: str) -> None:
        """Remove the application ``application_id`` from the list and from all ids.

        The id of one that was added can be added again.

        Raises:
            ConfigurationError: there is no such application.
        """
        number = self.number_or_error(application_id)
        place = self._place_of(number)
        del self._times[place], self._numbers[place]
        self._listed_at.pop(number, None)
        self._removed.add(number)
        added = self.added(number)
        if added is not None:
            del self._number_by_id[added.application_id]
            del self._number_by_reference[added.reference]
            for file in added.files():
                self._number_by_document.pop(file.document_id, None)

    def advance_to(self, second: int) -> None:
        """Move the present forward to a second; never back."""
        self.now = max(self.now, second)
        self._show_arrivals()

    def truth(self, after: int | None, before: int | None) -> set[str]:
        """Return the ids that an unlimited list call with these raw bounds returns now.

        The inclusivity of the bounds and the retention hold; what a service
        does to narrow a window (``max_span``, ``default_span``, ``future``)
        does not. Unset bounds mean the beginning of 1970 and the present second.

        Args:
            after: ``updated_after`` in service seconds.
            before: ``updated_before`` in service seconds.
        """
        lowest = 0 if after is None else after
        if self.rules.oldest is not None:
            lowest = max(lowest, self.rules.oldest)
        places = self.places(self.rules, lowest, self.now if before is None else before)
        return set(map(self.id_of, self._numbers[places.start : places.stop]))

    def places(self, rules: ServiceRules, after: int, before: int) -> range:
        """Return the index positions within two bounds, by the rules for inclusive bounds.

        Args:
            rules: whose inclusivity holds.
            after: lower bound, in service seconds.
            before: upper bound, in service seconds.
        """
        low = bisect_left if rules.lower_closed else bisect_right
        high = bisect_right if rules.upper_closed else bisect_left
        start = low(self._times, after)
        return range(start, max(start, high(self._times, before)))

    def numbers_at(self, places: Sequence[int]) -> Sequence[int]:
        """Return the application numbers at ``places`` of the index, in order."""
        if isinstance(places, range) and places.step == 1:
            return self._numbers[places.start : places.stop]
        return [self._numbers[place] for place in places]

    def id_near(self, number: int) -> str | None:
        """Return the id of a number, or of the next existing number; None if there is none."""
        size = len(self._updated)
        in_order = ((number + step) % size for step in range(size))
        existing = next((each for each in in_order if each not in self._removed), None)
        return None if existing is None else self.id_of(existing)

    def span(self) -> tuple[int, int] | None:
        """Return the first and the last service second of an update in the list, if any."""
        return (self._times[0], self._times[-1]) if self._times else None

    def counts(self, first: int, width: int, number: int) -> list[int]:
        """Return the number of updates in the list for each of a number of equal spans.

        Args:
            first: service second with which the first span begins.
            width: seconds of each.
            number: how many.
        """
        bounds = [bisect_left(self._times, first + width * n) for n in range(number + 1)]
        return [high - low for low, high in pairwise(bounds)]

    def search(self, text: str) -> Iterator[int]:
        """Return the numbers whose id or reference contains a text, the latest update first."""
        for number in reversed(self._numbers):
            if not text or text in self.id_of(number) or text in self.reference_of(number):
                yield number

    def _index_files(self, number: int, added: Contents) -> None:
        for file in added.files():
            self._number_by_document[file.document_id] = number

    def _show_arrivals(self) -> None:
        while self._arrivals and self._arrivals[0][0] <= self.now:
            _, number, version, second = heappop(self._arrivals)
            # An update that was held back longer than a later one never shows.
            if version > self._listed_versions.get(number, 0) and number not in self._removed:
                self._listed_versions[number] = version
                self._move_row(number, second)

    def _place_of(self, number: int) -> int:
        listed_second = self.listed_second(number)
        low = bisect_left(self._times, listed_second)
        return self._numbers.index(number, low, bisect_right(self._times, listed_second, low))

    def _move_row(self, number: int, second: int) -> None:
        listed_second = self.listed_second(number)
        if listed_second != second:
            place = self._place_of(number)
            del self._times[place], self._numbers[place]
            place = bisect_right(self._times, second)
            self._times.insert(place, second)
            self._numbers.insert(place, number)
        if second == self._updated[number]:
            self._listed_at.pop(number, None)
        else:
            self._listed_at[number] = second


def _read_added(
    application: Mapping[str, Any], documents: Mapping[str, Any] | None
) -> tuple[Contents, int]:
    """Return an added application in its stored form, and the second of its last update."""
    try:
        if documents is None:
            names = ("application_id", "application_reference_id")
            documents = {**{name: application[name] for name in names}, "documents": {}}
        _second_of_text(application["application_date"])
        added = Contents(application, documents)
        for name in (added.application_id, added.reference):
            if not name:
                raise ConfigurationError("an application needs an id and a reference")
        for document in added.all_documents():
            document["document_id"]
        return added, _second_of_text(application["last_updated_at"])
    except KeyError as error:
        raise ConfigurationError(f"an application cannot be served without {error}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(f"an application cannot be served: {error}") from None


def _second_of_text(text: str) -> int:
    moment = parse_iso_time(text)
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return second_of(moment)
