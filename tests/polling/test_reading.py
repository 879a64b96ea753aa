"""What is read next, what is given up, and what is the service's failure and not a record's."""

from collections import Counter
from typing import Any, Final

import msgspec
import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import (
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    IncomeClientError,
    NotFoundError,
    PayloadFault,
    ServerError,
)
from income_client.polling.reading import BATCH_SIZE, Reading, RecordVersion, Results, Row, Taken
from income_client.records.applications import Application
from income_client.records.documents import ApplicationRecord
from income_client.records.window import Window
from income_client.wire.codec import decode
from tests.support.payloads import APPLICATION

WINDOW = Window(0, 10)
_DECODED = decode(Application, msgspec.json.encode(APPLICATION))
READ: Final = RecordVersion(ApplicationRecord(application=_DECODED, documents=None), bytes(16))
GONE: Final = NotFoundError("gone")
BROKEN: Final = DecodeError((PayloadFault("$", "wrong"),))
CUT_SHORT: Final = DecodeError((PayloadFault("$", "cut short"),), retryable=True)
UNSPEAKABLE: Final = ConfigurationError("an id that no address can hold")
FAILED: Final = ServerError("failed")
CERTAIN: Final = (GONE, BROKEN, UNSPEAKABLE)

Fate = RecordVersion | IncomeClientError


def rows(*ids: str, is_letter: bool = False) -> list[Row]:
    """Return rows as the list shows them."""
    return [Row(one, WINDOW, is_letter) for one in ids]


def reading(*ids: str, witness: str | None = None) -> Reading:
    """Return a reading of these applications."""
    one = Reading(witness)
    one.extend(rows(*ids))
    return one


def settled(one: Reading, **fates: Fate) -> Taken:
    """Take one round of results, which is no failure of the service."""
    return one.receive({i: fates.get(i, READ) for i in one.next().application_ids})


def ids_read(taken: Taken) -> list[str]:
    """Return what was read."""
    return [row.application_id for row, _ in taken.read]


def ids_lost(taken: Taken) -> list[str]:
    """Return what was given up."""
    return [lost.row.application_id for lost in taken.given_up]


@define(kw_only=True)
class Service:
    """What it gives of each application, and when it gives nothing at all."""

    fates: dict[str, Fate]
    """What reading an application gives in the end."""
    failing: dict[str, int]
    """How often it fails before."""
    outages: list[bool]
    """Whether the service is down, by the round."""
    tried: Counter[str] = field(factory=Counter)

    def results(self, asked: tuple[str, ...]) -> Results:
        """Answer one round."""
        is_out = bool(self.outages) and self.outages.pop()
        return {one: FAILED if is_out else self._result(one) for one in asked}

    def _result(self, one: str) -> Fate:
        self.tried[one] += 1
        return FAILED if self.tried[one] <= self.failing.get(one, 0) else self.fates[one]


def ends_of_a_round(taken: Taken | IncomeClientError, results: Results) -> list[str]:
    """Return what is settled; nothing is given up for a failure that may be the service's."""
    gives_some = any(isinstance(result, RecordVersion) for result in results.values())
    if isinstance(taken, IncomeClientError):
        assert not gives_some
        assert taken in (FAILED, CUT_SHORT)
        return []
    for row, version in taken.read:
        assert version is results[row.application_id]
    for lost in taken.given_up:
        is_certain = lost.error in CERTAIN
        assert lost.error is results[lost.row.application_id]
        assert gives_some or is_certain or lost.row.is_letter
        least = 1 if lost.row.is_letter else 2 if is_certain else 3
        assert least <= lost.row.attempts <= 3
    return [*ids_read(taken), *ids_lost(taken)]


fates = st.sampled_from([READ, READ, READ, *CERTAIN, CUT_SHORT, FAILED])


@given(
    st.lists(st.tuples(fates, st.booleans(), st.integers(0, 2)), max_size=130),
    st.sampled_from([None, READ, GONE]),
    st.lists(st.booleans(), max_size=12),
)
def test_each_row_ends_in_one_place_and_none_for_the_service_s_failure(
    drawn: list[tuple[Fate, bool, int]], witness: Fate | None, outages: list[bool]
) -> None:
    """Rows that fail for good or a while, letters, a service that gives nothing at times."""
    listed = {f"a{n}": fate for n, (fate, *_) in enumerate(drawn)}
    one = Reading(None if witness is None else "witness")
    one.extend(Row(f"a{n}", WINDOW, is_letter) for n, (_, is_letter, _) in enumerate(drawn))
    failing = {f"a{n}": times for n, (*_, times) in enumerate(drawn)}
    service = Service(
        fates=listed if witness is None else listed | {"witness": witness},
        failing=failing,
        outages=outages,
    )
    ends: list[str] = []
    for _ in range(60):
        if not one:
            break
        asked = one.next().application_ids
        assert 0 < len(asked) <= BATCH_SIZE + 1
        results = service.results(asked)
        taken: Taken | IncomeClientError
        try:
            taken = one.receive(results)
        except IncomeClientError as error:
            taken = error
        ends += ends_of_a_round(taken, results)
    if one:
        # Nobody vouches for the service: what is left can neither be read nor be given up.
        left = one.next().application_ids
        assert all(service.fates[i] is not READ for i in left)
    else:
        assert Counter(ends) == Counter(list(listed))


@pytest.mark.parametrize("error", CERTAIN)
def test_a_failure_of_the_record_is_given_up_at_the_second_time(error: IncomeClientError) -> None:
    """It needs nobody else to be read: the service has answered."""
    one = reading("a")
    assert settled(one, a=error) == Taken((), ())
    taken = settled(one, a=error)
    assert ids_lost(taken) == ["a"]
    assert taken.given_up[0].row.attempts == 2
    assert taken.given_up[0].error is error
    assert not one


@pytest.mark.parametrize("error", [FAILED, CUT_SHORT])
def test_a_failure_that_may_be_the_service_s_is_given_up_at_the_third(
    error: IncomeClientError,
) -> None:
    """Each time another must have been read, which is asked for along with it."""
    one = reading("a", "b", witness="w")
    assert ids_read(settled(one, a=error)) == ["b"]
    for attempts in (2, 3):
        assert one.next().application_ids == ("a", "b")
        taken = settled(one, a=error)
        assert ids_lost(taken) == (["a"] if attempts == 3 else [])
    assert not one


def test_one_that_hangs_is_given_up_at_once() -> None:
    """Its deadline has held up the others long enough."""
    one = reading("a", "b")
    assert ids_lost(settled(one, a=DeadlineExceededError("late"))) == ["a"]


def test_where_nothing_is_given_another_is_asked_for() -> None:
    """If that one cannot be read either, the failure stands for the whole and nothing is lost."""
    one = reading("a", "b", witness="w")
    assert one.next().application_ids == ("a", "b")
    assert settled(one, a=FAILED, b=GONE) == Taken((), ())
    assert one.next().application_ids == ("a", "b", "w")
    with pytest.raises(ServerError):
        one.receive({"a": FAILED, "b": GONE, "w": FAILED})
    assert one
    again = one.next()
    assert again.application_ids == ("a", "b", "w")
    taken = one.receive({"a": READ, "b": GONE, "w": READ})
    assert ids_read(taken) == ["a"]  # the witness was asked for, and is not delivered
    assert one.next().application_ids == ("b",)


def test_a_row_that_waits_stands_in_for_a_witness() -> None:
    """Where nothing was read before, the last of the others is asked for, and read in its turn."""
    ids = [f"a{n}" for n in range(BATCH_SIZE + 5)]
    one = reading(*ids)
    results: Results = dict.fromkeys(one.next().application_ids, FAILED)
    assert one.receive(results) == Taken((), ())
    assert one.next().application_ids == (*ids[:BATCH_SIZE], ids[-1])
    assert one.receive({**results, ids[-1]: READ}) == Taken((), ())
    assert one.witness == ids[-1]
    assert one.next().application_ids == (*ids[BATCH_SIZE:], *ids[: BATCH_SIZE - 5])


def test_nobody_vouches_for_oneself() -> None:
    """A witness among those that failed is none."""
    one = reading("a", witness="a")
    one.next()
    with pytest.raises(ServerError):
        one.receive({"a": FAILED})
    assert one.next().application_ids == ("a",)


def test_without_a_failure_of_the_service_no_witness_is_asked() -> None:
    """Records that are gone cost no more requests than their own."""
    one = reading("a", "b", witness="w")
    assert settled(one, a=GONE, b=BROKEN) == Taken((), ())
    assert one.next().application_ids == ("a", "b")


def test_the_last_one_read_is_the_witness() -> None:
    """It tells best whether the service gives anything now."""
    one = reading("a", "b", witness="w")
    settled(one, a=FAILED, b=FAILED)
    settled(one, a=READ, b=FAILED, w=FAILED)
    assert one.next().application_ids == ("b", "a")
    assert one.witness == "a"


def test_a_letter_is_tried_once() -> None:
    """It was given up before; nothing is lost with another wait."""
    one = Reading("w")
    one.extend(rows("a", "b", is_letter=True))
    taken = settled(one, b=GONE)
    assert (ids_read(taken), ids_lost(taken)) == (["a"], ["b"])
    assert taken.given_up[0].row.attempts == 1


def test_what_failed_waits_until_the_others_are_read() -> None:
    """At most a hundred are read at once, and none is before its turn."""
    ids = [f"a{n}" for n in range(BATCH_SIZE + 2)]
    one = reading(*ids)
    assert one.next().application_ids == tuple(ids[:BATCH_SIZE])
    taken = settled(one, a7=FAILED)
    assert ids_read(taken) == [i for i in ids[:BATCH_SIZE] if i != "a7"]
    assert one.next().application_ids == (*ids[BATCH_SIZE:], "a7")


def test_pauses_come_only_where_all_were_tried_a_moment_ago() -> None:
    """A fresh row is read at once; the pause grows with the attempts and with doubt."""
    one = reading("a", "b", witness="w")
    assert one.next().pause == 0
    settled(one, a=FAILED)
    assert one.next().pause == 1
    settled(one, a=FAILED)
    assert one.next().pause == 2
    one.extend(rows("c"))
    assert one.next().pause == 0


def test_what_was_not_answered_is_asked_for_again() -> None:
    """A request that was cancelled has settled nothing."""
    one = reading("a", "b")
    assert one.next() == one.next()
    assert ids_read(settled(one)) == ["a", "b"]


def test_a_reading_shows_no_record() -> None:
    """What is read is not in what is printed of its version."""
    shown: Any = repr(GONE) + repr(Row("a", WINDOW))
    assert "Ada" not in shown
    assert "digest" not in repr(READ)
