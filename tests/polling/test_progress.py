"""Progress: what was delivered is known for as long as the list can show it."""

from typing import Final

from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from income_client.polling.checkpoint import Checkpoint, Progress, Seen, read_checkpoint
from income_client.polling.reading import DIGEST_BYTES, KEY_BYTES
from income_client.wire.times import FIRST_SECOND

MOST_STRAYS: Final = 10_000
A: Final = b"A" * DIGEST_BYTES
B: Final = b"B" * DIGEST_BYTES
NONE: Final = bytes(DIGEST_BYTES)


def progress(reached: int = 0, *, settle: int = 0, lookback: int = 0, since: int = 0) -> Progress:
    """Return a progress that knows nothing yet."""
    return Progress(Checkpoint(since=since, reached=reached), settle=settle, lookback=lookback)


def key(number: int) -> bytes:
    """Return the key of an application."""
    return number.to_bytes(KEY_BYTES)


def remembered(one: Progress) -> dict[bytes, Seen]:
    """Return what a checkpoint of it would hold."""
    return dict(one.checkpoint().seen)


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
    """By application: the second of its update, how many there were, and the content."""
    updates: int = 0
    delivered: list[tuple[bytes, int, bytes]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        """Begin with the present."""
        at = self.now
        self.progress = progress(at, settle=self.settle, lookback=self.lookback, since=at)

    def touch(self, application: bytes, content: bytes) -> None:
        """Update an application."""
        self.updates += 1
        self.rows[application] = (self.now, self.updates, content)

    def listed(self) -> list[bytes]:
        """Return what the list shows from the second before the lower one to the present."""
        bound = max(self.progress.lower - 1, FIRST_SECOND)
        lowest = bound if self.is_lower_closed else bound + 1
        last = self.now if self.is_upper_closed else self.now - 1
        return [one for one, (second, *_) in self.rows.items() if lowest <= second <= last]

    def poll(self, ends: st.DataObject, *, is_failing: bool) -> None:
        """List, read and remember as a poll does, to its end or not."""
        self.progress.begin()
        for application in self.listed():
            second, number, content = self.rows[application]
            if not self.progress.knows(application, content):
                self.delivered.append((application, number, content))
            until = ends.draw(st.sampled_from([second + 1, self.now + 1, None]), label="until")
            self.progress.remember(application, content, until, is_stray=False)
        self.progress.deliver()
        if not is_failing:
            self.progress.advance(min(self.now - 1, self.now - self.settle))
            self.progress.tell_time(self.now + 1)

    def restart(self) -> None:
        """Go on from the text of a checkpoint."""
        checkpoint = read_checkpoint(self.progress.checkpoint().text())
        self.progress = Progress(checkpoint, settle=self.settle, lookback=self.lookback)


services = st.builds(
    Service,
    now=st.sampled_from([-3, 0, 1_700_000_000, FIRST_SECOND + 2]),
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
    """Whatever the bounds mean and whenever updates fall, an A after a B is an A again."""
    for way in [*ways, "tick", "tick", "poll"]:
        reached = service.progress.reached
        match way:
            case "touch":
                content = data.draw(st.sampled_from([A, B]))
                service.touch(key(data.draw(st.integers(0, 2))), content)
            case "tick":
                service.now += data.draw(st.integers(1, 4))
            case "poll" | "fail":
                service.poll(data, is_failing=way == "fail")
                last = {application: content for application, _, content in service.delivered}
                for application in service.listed():
                    assert last[application] == service.rows[application][2]
                    # The list shows it again: it will be known then.
                    assert service.progress.knows(application, last[application])
            case _:
                service.restart()
        assert service.progress.reached >= reached
    numbers = [number for _, number, _ in service.delivered]
    assert len(numbers) == len(set(numbers))
    last = {application: content for application, _, content in service.delivered}
    assert last == {application: row[2] for application, row in service.rows.items()}


@given(st.integers(0, 9), st.integers(0, 9), st.sampled_from([-1000, 0, 1_700_000_000]))
def test_memory_is_bounded_by_the_stretch(settle: int, lookback: int, start: int) -> None:
    """However long it polls, it knows the versions of the seconds that are listed again."""
    one = progress(start, settle=settle, lookback=lookback, since=start)
    for second in range(start, start + 200):
        one.begin()
        one.remember(key(second - start), NONE, None, is_stray=False)
        one.advance(second - settle)
        one.tell_time(second + 1)
        assert len(remembered(one)) <= settle + lookback + 5


@given(st.lists(st.integers(-50, 50)))
def test_it_never_goes_back(seconds: list[int]) -> None:
    """The second reached is the latest of all that it was advanced to."""
    one = progress(0, since=-10)
    for second in seconds:
        one.advance(second)
    assert one.reached == max([0, *seconds])
    assert one.checkpoint().reached == one.reached


def test_nothing_before_the_beginning_is_listed() -> None:
    """A lookback does not reach behind the second that polling began with."""
    one = progress(100, lookback=30, since=90)
    assert one.lower == 90
    one.advance(115)
    assert one.lower == 90
    one.advance(125)
    assert one.lower == 95


def test_the_second_before_the_first_that_is_listed_is_remembered() -> None:
    """Where the lower bound is inclusive the list shows it again."""
    one = progress(10)
    one.remember(key(1), A, 19, is_stray=False)
    one.remember(key(2), A, 18, is_stray=False)
    one.advance(20)
    assert one.knows(key(1), A)
    assert not one.knows(key(2), A)


def test_only_the_version_delivered_last_is_known() -> None:
    """An application that went back to what it was is delivered again."""
    one = progress()
    assert not one.knows(key(1), A)
    for digest in (A, B, A):
        assert not one.knows(key(1), digest)
        one.remember(key(1), digest, None, is_stray=False)
        assert one.knows(key(1), digest)


def test_what_has_no_end_is_kept_until_the_next_poll_tells_one() -> None:
    """It was written by the present of that poll, and is forgotten behind it."""
    one = progress()
    one.remember(key(1), A, None, is_stray=False)
    one.remember(key(2), A, 70, is_stray=False)
    one.advance(1000)
    assert set(remembered(one)) == {key(1)}
    one.begin()
    one.tell_time(1005)
    one.advance(1006)
    assert remembered(one)[key(1)].until == 1005
    one.advance(1007)
    assert remembered(one) == {}


def test_what_was_read_since_a_poll_began_has_no_end_yet() -> None:
    """It may have been written after the present that the poll was told."""
    one = progress()
    one.remember(key(1), A, None, is_stray=False)
    one.remember(key(2), A, None, is_stray=False)
    one.begin()
    one.remember(key(2), A, None, is_stray=False)
    one.remember(key(3), A, None, is_stray=False)
    one.tell_time(50)
    assert {k: seen.until for k, seen in remembered(one).items()} == {
        key(1): 50,
        key(2): None,
        key(3): None,
    }


def test_few_strays_are_kept() -> None:
    """Years of history in one poll fill no memory; the latest are kept."""
    one = progress()
    for number in range(MOST_STRAYS + 50):
        one.remember(key(number), NONE, None, is_stray=True)
    kept = remembered(one)
    assert set(kept) == {key(number) for number in range(50, MOST_STRAYS + 50)}


def test_a_stray_whose_end_has_become_known_is_not_forgotten_for_others() -> None:
    """Only those are given up of which nothing is known."""
    one = progress()
    one.remember(key(0), NONE, None, is_stray=True)
    one.remember(key(0), NONE, 7, is_stray=True)
    for number in range(1, MOST_STRAYS + 1):
        one.remember(key(number), NONE, None, is_stray=True)
    assert one.knows(key(0), NONE)
    assert one.knows(key(1), NONE)
    one.remember(key(9_999_999), NONE, None, is_stray=True)
    assert one.knows(key(0), NONE)
    assert not one.knows(key(1), NONE)


def test_a_checkpoint_does_not_change_with_what_it_was_taken_of() -> None:
    """What a batch will commit is what was true when it was made."""
    one = progress(5, since=5)
    one.deliver()
    before = one.checkpoint()
    one.remember(key(1), NONE, 9, is_stray=False)
    one.deliver()
    one.advance(7)
    assert before == Checkpoint(since=5, reached=5, batches=1)
    assert one.checkpoint().progress > before.progress
    assert one.checkpoint().batches == 2


def test_a_clock_that_has_fallen_back_is_followed_until_it_is_where_it_was() -> None:
    """What was reached stays so, and the list is asked from where the clock is."""
    one = progress(1_000, settle=5)
    one.fall_back(400)
    assert (one.lower, one.reached) == (400, 1_000)
    one.fall_back(500)
    assert one.lower == 400
    one.advance(600)
    assert (one.lower, one.reached) == (600, 1_000)
    assert Progress(one.checkpoint(), settle=5, lookback=0).lower == 600
    one.advance(1_200)
    assert (one.lower, one.reached, one.low) == (1_200, 1_200, None)


def test_nothing_before_the_beginning_is_asked_for_by_a_clock_that_has_fallen_back() -> None:
    """Where polling began is where it began."""
    one = progress(1_000, since=900)
    one.fall_back(100)
    assert one.lower == 900


def test_a_clock_that_falls_back_while_polling_is_followed_before_the_beginning() -> None:
    """What is updated from then on was updated after polling began."""
    one = progress(1_000, since=900)
    one.fall_back(100, is_running=True)
    assert one.lower == 100
    one.advance(1_200)
    assert one.lower == 1_200


def test_what_cannot_be_read_is_not_forgotten_before_it_can() -> None:
    """It may come back as it was delivered."""
    one = progress(10)
    one.remember(key(1), A, 11, is_stray=False)
    one.hold(key(1))
    one.advance(100)
    assert one.knows(key(1), A)
    one.release(key(1))
    one.advance(101)
    assert not one.is_seen(key(1))
