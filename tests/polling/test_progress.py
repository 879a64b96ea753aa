"""Progress: what was delivered is known for as long as the list can show it."""

from typing import Final

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from income_client.polling.checkpoint import Checkpoint, read_checkpoint
from income_client.polling.progress import Progress
from income_client.polling.reading import DIGEST_BYTES, KEY_BYTES
from income_client.records.window import Window
from income_client.wire.times import FIRST_SECOND

MOST_RECENT: Final = 10_000
A: Final = b"A" * DIGEST_BYTES
B: Final = b"B" * DIGEST_BYTES


def progress(reached: int = 0, *, settle: int = 0, lookback: int = 0, since: int = 0) -> Progress:
    return Progress(Checkpoint(since=since, reached=reached), settle=settle, lookback=lookback)


def key(number: int) -> bytes:
    return number.to_bytes(KEY_BYTES)


def admit(
    one: Progress, number: int, digest: bytes = A, *, listed: int = 0, updated: int | None = None
) -> bool:
    """Take a version listed in the second before this one."""
    window = Window(listed - 1, listed)
    return one.admit(key(number), digest, listed_in=window, updated=updated, latest=listed)


def kept(one: Progress) -> set[bytes]:
    return set(one.checkpoint().seen)


@define(kw_only=True)
class Service:
    """A list by second whose bounds mean what they may, and a poller's progress."""

    now: int
    settle: int
    lookback: int
    is_lower_closed: bool
    is_upper_closed: bool
    progress: Progress = field(init=False)
    rows: dict[bytes, tuple[int, int, bytes]] = field(factory=dict)
    """By application: the second of its last update, the number of updates, and the content."""
    updates: int = 0
    delivered: list[tuple[bytes, int, bytes]] = field(factory=list)
    began: int = field(init=False)
    """The second from which updates are delivered."""
    done: int = field(init=False)
    """The second before which the polls so far have delivered all."""

    def __attrs_post_init__(self) -> None:
        self.began = self.done = at = self.now
        self.progress = progress(at, settle=self.settle, lookback=self.lookback, since=at)

    @property
    def listed_from(self) -> int:
        """The first second that the next poll has to list."""
        return max(self.began, self.done - self.lookback)

    def touch(self, application: bytes, content: bytes) -> None:
        self.updates += 1
        self.rows[application] = (self.now, self.updates, content)

    def listed(self) -> list[bytes]:
        """Return what the list shows from the second before the lower one to the present."""
        bound = max(self.listed_from - 1, FIRST_SECOND)
        lowest = bound if self.is_lower_closed else bound + 1
        last = self.now if self.is_upper_closed else self.now - 1
        return [one for one, (second, *_) in self.rows.items() if lowest <= second <= last]

    def poll(self, ends: st.DataObject, *, is_failing: bool) -> None:
        """List, read and remember as a poll does, to its end or not."""
        window = Window(self.listed_from, self.now)
        for application in self.listed():
            if ends.draw(st.booleans(), label="is updated between the listing and the reading"):
                self.now += 1
                self.touch(application, ends.draw(st.sampled_from([A, B])))
            second, number, content = self.rows[application]
            updated = second if second >= window.before else None
            is_new = self.progress.admit(
                application, content, listed_in=window, updated=updated, latest=window.before
            )
            if is_new:
                self.delivered.append((application, number, content))
        self.progress.deliver()
        if not is_failing:
            second = window.before - max(1, self.settle)
            self.progress.advance(second)
            self.done = max(self.done, second)

    def restart(self) -> None:
        checkpoint = read_checkpoint(self.progress.checkpoint().text)
        self.progress = Progress(checkpoint, settle=self.settle, lookback=self.lookback)


services = st.builds(
    Service,
    now=st.sampled_from([-3, 0, 1_700_000_000, FIRST_SECOND + 9]),
    settle=st.integers(0, 4),
    lookback=st.integers(0, 4),
    is_lower_closed=st.booleans(),
    is_upper_closed=st.booleans(),
)
steps = st.lists(
    st.sampled_from(["touch", "touch", "tick", "poll", "poll", "fail", "restart"]), max_size=30
)


@given(services, steps, st.data())
def test_each_version_is_delivered_once_and_the_last_always(
    service: Service, ways: list[str], data: st.DataObject
) -> None:
    """For any bounds and times of updates, an A after a B is delivered again."""
    for way in [*ways, "tick", "tick"]:
        reached = service.progress.reached
        match way:
            case "touch":
                content = data.draw(st.sampled_from([A, B]))
                service.touch(key(data.draw(st.integers(0, 2))), content)
            case "tick":
                service.now += data.draw(st.integers(1, 4))
            case "poll" | "fail":
                service.poll(data, is_failing=way == "fail")
            case _:
                service.restart()
        assert service.progress.reached >= reached
        assert (service.progress.reached, service.progress.lower) == (
            service.done,
            service.listed_from,
        )
        numbers = [number for _, number, _ in service.delivered]
        assert len(numbers) == len(set(numbers))
    service.now += 5
    seen = {one: content for one, _, content in service.delivered}
    for application in service.listed():
        content = service.rows[application][2]
        if not service.progress.knows(application, content):
            seen[application] = content
    assert seen == {application: row[2] for application, row in service.rows.items()}


@given(st.integers(0, 9), st.integers(0, 9), st.sampled_from([-1000, 0, 1_700_000_000]))
def test_a_checkpoint_is_bounded_by_what_is_listed_again(
    settle: int, lookback: int, start: int
) -> None:
    """However long it polls, it holds the versions of the seconds that are listed again."""
    one = progress(start, settle=settle, lookback=lookback, since=start)
    for second in range(start, start + 200):
        admit(one, second - start, listed=second)
        one.advance(second - settle)
        assert len(kept(one)) <= settle + lookback + 5


@pytest.mark.parametrize(
    ("listed", "updated", "is_kept"),
    [
        (19, None, True),  # where the lower bound is inclusive the list shows it again
        (17, None, False),
        (17, 19, True),  # it was updated after it was listed
        (17, 17 + 3_600, True),
        (17, 17 + 3_601, False),  # a time that cannot be is not believed
        (5_000, 18, True),
    ],
)
def test_what_the_next_listing_may_show_is_kept(
    listed: int, updated: int | None, is_kept: bool
) -> None:
    """The checkpoint keeps those versions; memory keeps every version for a while longer."""
    one = progress(10)
    admit(one, 1, listed=listed, updated=updated)
    one.advance(20)
    assert (key(1) in kept(one)) == is_kept
    assert one.knows(key(1), A)
    assert one.is_seen(key(1))


def test_times_that_cannot_be_are_not_remembered() -> None:
    """The end of the calendar is the end of nothing; an unknown present rules nothing out."""
    one = progress(10)
    far, near = Window(12, 10**9), Window(12, 14)
    one.admit(key(1), A, listed_in=far, updated=14, latest=20)
    one.admit(key(2), A, listed_in=far, updated=None, latest=20)
    one.admit(key(3), A, listed_in=near, updated=10**7, latest=None)
    one.admit(key(4), A, listed_in=near, updated=10**7, latest=20)
    one.advance(15)
    assert kept(one) == {key(1), key(3), key(4)}
    one.advance(17)
    assert kept(one) == {key(3)}


def test_only_the_version_delivered_last_is_known() -> None:
    """An application that went back to what it was is delivered again."""
    one = progress()
    assert [admit(one, 1, digest) for digest in (A, A, B, B, A)] == [True, False, True, False, True]
    one.advance(100)
    assert [admit(one, 1, digest) for digest in (A, B, A)] == [False, True, True]


def test_memory_is_bounded() -> None:
    """Years of history in one poll fill none; the latest are known."""
    one = progress()
    for number in range(MOST_RECENT + 50):
        admit(one, number)
        one.advance(number + 5)
    assert not one.is_seen(key(40))
    assert one.is_seen(key(50))
    assert kept(one) == set()


def test_what_is_held_is_not_forgotten() -> None:
    """A dead letter may come back as it was delivered, to the next process as well."""
    one = progress(10)
    admit(one, 1, listed=11)
    one.advance(100, dead_keys={key(1)})
    assert kept(one) == {key(1)}
    one.advance(101)
    assert kept(one) == set()


def test_a_checkpoint_does_not_change_with_what_it_was_taken_of() -> None:
    """A batch commits the progress of the time when it was made."""
    one = progress(5, since=5)
    one.deliver()
    before = one.checkpoint()
    admit(one, 1, listed=9)
    one.deliver()
    one.advance(7)
    assert before == Checkpoint(since=5, reached=5, batches=1, settle=0)
    assert one.checkpoint().progress > before.progress
    assert one.checkpoint().batches == 2


def test_a_clock_that_has_fallen_back_is_followed_until_it_is_where_it_was() -> None:
    """The reached second stays the same, and the list is asked from the clock's second on."""
    one = progress(1_000, settle=5)
    one.fall_back(400)
    assert (one.lower, one.reached) == (400, 1_000)
    one.fall_back(500)
    assert one.lower == 400
    one.advance(600)
    assert (one.lower, one.reached) == (600, 1_000)
    assert Progress(one.checkpoint(), settle=5, lookback=0).lower == 600
    one.advance(1_200)
    assert (one.lower, one.reached, one.checkpoint().resumes_at) == (1_200, 1_200, None)


@pytest.mark.parametrize("reached", [900, 1_000])
def test_a_clock_that_falls_back_is_followed_before_the_beginning(reached: int) -> None:
    """Updates after the fall were made after polling began, even if their times are earlier."""
    one = progress(reached, since=900)
    one.fall_back(100)
    assert one.lower == 100
    one.advance(1_200)
    assert one.lower == 1_200
