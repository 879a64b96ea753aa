"""A dead letter: what no two of a poller have in common, and nothing of the content."""

from datetime import datetime, timedelta

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client.records.dead_letters import DeadLetter, key_of_application, key_of_window
from income_client.records.window import EPOCH, Window

NOON = datetime(2026, 6, 30, 12)  # noqa: DTZ001 - the service's times carry no zone
LAST = datetime(9999, 12, 31, 23, 59, 59)  # noqa: DTZ001 - likewise
ids = st.text(max_size=12) | st.integers(-99, 99).map(lambda n: f"window:{n}")


def letter(application_id: str | None, after: int = 5) -> DeadLetter:
    """Return a letter about an application, or about a second."""
    return DeadLetter(
        application_id=application_id,
        window=Window(after, after + 1),
        reason="NotFoundError: get_application(app-1): 404 Not Found",
        attempts=2,
        first_tried_at=NOON,
        last_tried_at=NOON,
    )


@given(ids, ids, st.integers(-9, 9), st.integers(-9, 9))
def test_no_two_subjects_have_one_key(one: str, two: str, first: int, second: int) -> None:
    """An application has one key wherever it was listed, and is taken for no second."""
    assert (letter(one, first).key == letter(two, second).key) is (one == two)
    assert (letter(None, first).key == letter(None, second).key) is (first == second)
    assert letter(one, first).key != letter(None, second).key


def test_an_application_of_an_empty_id_is_no_second() -> None:
    """Only the absence of an id makes a letter one about the list."""
    assert letter("").key == key_of_application("")
    assert letter(None).key == key_of_window(Window(5, 6))


def test_a_letter_is_a_value() -> None:
    """What a store gives back is equal to what it was given."""
    assert letter("app-1") == letter("app-1")
    assert hash(letter("app-1")) == hash(letter("app-1"))
    assert letter("app-1").window.starts_at == EPOCH + timedelta(seconds=5)


@given(st.integers(1, 60), st.sampled_from((NOON, LAST)))
def test_the_next_try_is_a_while_after_the_last(attempts: int, last: datetime) -> None:
    """The more often it was tried, the later, and a day later at most."""
    one = evolve(letter("app-1"), attempts=attempts, last_tried_at=last)
    more = evolve(one, attempts=attempts + 1)
    assert last <= one.next_try_at <= more.next_try_at
    assert one.next_try_at - last <= timedelta(days=1)
