"""The emulator's world, to which applications of a test's own are added; knows no JSON."""

from bisect import bisect_right
from collections.abc import Sequence

from income_client import ApplicationRecord, ConfigurationError
from income_client.emulator import ServiceRules, World
from income_client.emulator.times import second_of

from .given import Given


class GivenWorld(World):
    """Invented applications, and behind them those that were given.

    Args:
        updates: for each invented application the service second of its last update.
        seed: what everything invented hangs on.
        now: the present service second.
        rules: how the service behaves.
    """

    def __init__(self, updates: Sequence[int], *, seed: int, now: int, rules: ServiceRules) -> None:
        super().__init__(updates, seed=seed, now=now, rules=rules)
        self._invented = len(self)
        self._given: list[Given] = []
        self._by_id: dict[str, int] = {}
        self._by_reference: dict[str, int] = {}

    def given(self, number: int) -> Given | None:
        """Return what was given under an application's number, None for an invented one."""
        return self._given[number - self._invented] if number >= self._invented else None

    def all_given(self) -> Sequence[Given]:
        """Return everything that was given."""
        return self._given

    def add(self, given: Given, second: int, *, now: int) -> None:
        """Add an application.

        Args:
            given: the application.
            second: service second of its last update.
            now: the present service second.

        Raises:
            ConfigurationError: its id or its reference is taken, or it lies in the future.
        """
        reference = given.record.application.application_reference_id
        if self.number_of(given.application_id) is not None:
            raise ConfigurationError("the service has an application of this id already")
        if self.number_by_reference(reference) is not None:
            raise ConfigurationError("the service has an application of this reference already")
        if second > now:
            raise ConfigurationError(
                "last_updated_at lies after the service's present; give now=True, "
                "or an earlier time"
            )
        number = len(self)
        self._given.append(given)
        self._by_id[given.application_id] = number
        self._by_reference[reference] = number
        self._updated.append(second)
        place = bisect_right(self._times, second)
        self._times.insert(place, second)
        self._numbers.insert(place, number)

    def check_given(self, record: ApplicationRecord) -> None:
        """Refuse what is no version of an application that was given.

        Raises:
            ConfigurationError: no application of this id was given, or the reference differs.
        """
        number = self._by_id.get(record.application_id)
        if number is None:
            raise ConfigurationError("no application of this id was added")
        if self._by_reference.get(record.application.application_reference_id) != number:
            raise ConfigurationError("an application keeps its application_reference_id")

    def replace(self, given: Given) -> None:
        """Put another version in the place of a given application, updated now."""
        self._given[self._by_id[given.application_id] - self._invented] = given
        self.touch(given.application_id)

    def id_of(self, number: int) -> str:
        """Return the id of an application's number."""
        found = self.given(number)
        return super().id_of(number) if found is None else found.application_id

    def number_of(self, application_id: str) -> int | None:
        """Return the number behind an id, None if there is no such application."""
        number = self._by_id.get(application_id)
        if number is None:
            number = super().number_of(application_id)
            # An invented id that no invented application has.
            return None if number is None or number >= self._invented else number
        return number

    def reference_of(self, number: int) -> str:
        """Return the partner's own reference of an application's number."""
        found = self.given(number)
        if found is None:
            return super().reference_of(number)
        return found.record.application.application_reference_id

    def number_by_reference(self, reference: str) -> int | None:
        """Return the number behind a partner's reference, None if there is no such application."""
        number = self._by_reference.get(reference)
        if number is None:
            number = super().number_by_reference(reference)
            return None if number is None or number >= self._invented else number
        return number

    def applied_at(self, number: int) -> int:
        """Return the service second of an application's date."""
        found = self.given(number)
        if found is None:
            return super().applied_at(number)
        return second_of(found.record.application.application_date)
