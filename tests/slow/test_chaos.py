"""Pollers killed at random lose nothing; and whoever says so would have noticed."""

from collections.abc import Iterable

import pytest

from benchmarks.chaos import run
from benchmarks.chaos_chronicle import Chronicle, PollBegun, Version
from benchmarks.chaos_nursery import Lived
from benchmarks.chaos_stage import Plan
from benchmarks.chaos_verdict import CalmLife, Delivery, Verdict, judge
from income_client.emulator import Emulator, RecordedRequest

KILLS = 22
REQUEST = RecordedRequest(
    name="list_applications",
    method="GET",
    path="/v1/income/applications",
    query="",
    headers={},
    authorized=True,
    status=200,
    fault=None,
    time=0,
)


async def test_a_poller_that_is_killed_again_and_again_delivers_every_update() -> None:
    """SIGKILL at random moments costs a batch of repetitions each time at most, and no update."""
    figures = await run(Plan(kills=KILLS, seed=10, applications=250))
    assert figures.violations == {}
    assert figures.kills == KILLS
    assert sum(figures.places.values()) == KILLS
    assert figures.most_repeated <= 100
    assert figures.faults > 0
    assert figures.verdict.owed > 50
    assert figures.records >= len(figures.verdict.delivered) >= 250


class Story:
    """A service of three applications, and lives that are told by hand."""

    def __init__(self) -> None:
        self.service = Emulator([1_000_000, 1_000_010, 1_000_020])
        self.chronicle = Chronicle(self.service)
        self.ids = self.service.world.ids
        self.lives: list[Lived] = []
        self.born: list[int] = []
        self.deliveries: list[Delivery] = []

    def live(self, *words: str, code: int = -9, polls: int = 0) -> None:
        """Let a worker live, and begin so many polls."""
        number = len(self.lives)
        self.born.append(self.chronicle.moment)
        self.lives.append(Lived(number=number, words=words, code=code))
        for _ in range(polls):
            self.service.requests.append(REQUEST)
            moment, second = self.chronicle.moment - 1, self.service.now
            self.chronicle.polls.append(PollBegun(life=number, moment=moment, second=second))

    def deliver(self, life: int, batch: int, *ids: str) -> None:
        """Have a worker write down what the service says now."""
        for one in ids:
            application, documents = self.chronicle._marks(one)
            self.deliveries.append(
                Delivery(
                    life=life,
                    batch=batch,
                    application_id=one,
                    application=application,
                    documents=documents,
                )
            )

    def verdict(self, calm: Iterable[int] = (), letters: Iterable[str] = ()) -> Verdict:
        """Judge what was told."""
        self.chronicle.close()
        dead = frozenset(letters)
        quiet = [CalmLife(number=n, born=self.born[n], letters=dead) for n in calm]
        return judge(self.chronicle, self.deliveries, self.lives, quiet)


@pytest.fixture
def story() -> Story:
    """Return a story in which nothing has happened."""
    return Story()


def test_a_last_version_that_never_came_is_found(story: Story) -> None:
    """Whatever is current at the end and was not delivered is stale."""
    story.live("batch 1", "written 1", "committed 1")
    story.deliver(0, 1, *story.ids)
    story.chronicle.touch(story.ids[1])
    assert [v.application_id for v in story.verdict().stale] == [story.ids[1]]


def test_a_version_between_two_polls_is_owed(story: Story) -> None:
    """What was there when a poll began and still when the next began must have come."""
    story.deliver(0, 1, *story.ids)
    story.chronicle.touch(story.ids[0])
    story.service.advance(5)
    story.live("batch 1", "written 1", "committed 1", polls=2)
    story.chronicle.touch(story.ids[0])
    story.deliver(0, 2, story.ids[0])
    assert _names(story.verdict(calm=[0]).lost) == [(story.ids[0], 1)]


def test_a_version_is_not_owed_by_polls_that_could_miss_it(story: Story) -> None:
    """What came too late for a poll, or went before its end, may be missing."""
    story.deliver(0, 1, *story.ids)
    story.chronicle.touch(story.ids[0])
    story.live("batch 1", "written 1", "committed 1", polls=2)  # in the second of the update
    story.service.advance(5)
    story.live("batch 1", polls=1)
    story.chronicle.touch(story.ids[0])
    story.deliver(1, 1, story.ids[0])
    assert story.verdict(calm=[0, 1]).lost == []


def test_a_dead_letter_is_owed_later(story: Story) -> None:
    """What was unreadable before a life began is due on its own schedule."""
    story.live(polls=1)
    story.service.advance(5)
    story.live(polls=2)
    verdict = story.verdict(calm=[1], letters=story.ids[:1])
    assert _names(verdict.lost) == [(one, 0) for one in story.ids[1:]]


def test_repetitions_of_a_batch_in_hand_are_counted_for_the_kill(story: Story) -> None:
    """Only the last batch of a killed life, if it was not committed, may come again."""
    story.live("batch 1", "written 1", "committed 1", "batch 2")
    story.live("batch 1", "written 1", "committed 1")
    story.deliver(0, 1, story.ids[0])
    story.deliver(0, 2, *story.ids[1:])
    story.deliver(1, 1, *story.ids)
    verdict = story.verdict()
    assert verdict.repeated == {0: 2}
    assert [one.application_id for one in verdict.unexcused] == [story.ids[0]]


def test_a_repetition_within_a_life_is_not_excused(story: Story) -> None:
    """Without a kill each version read comes once."""
    story.live("batch 1", "written 1", "committed 1", "batch 2")
    story.deliver(0, 2, story.ids[0], story.ids[0])
    assert len(story.verdict().unexcused) == 1


def test_what_the_service_never_said_is_found(story: Story) -> None:
    """A record with another content, or older than one before, is wrong."""
    story.live("batch 1")
    story.deliver(0, 1, story.ids[0])
    story.chronicle.touch(story.ids[0])
    story.deliver(0, 1, story.ids[0])
    story.deliveries.append(story.deliveries[0])
    story.deliver(0, 1, story.ids[1])
    story.service.touch(story.ids[1])  # behind the back of the chronicle
    story.deliver(0, 1, story.ids[2])
    verdict = story.verdict()
    assert [one.application_id for one in verdict.backward] == [story.ids[0]]
    assert [one.application_id for one in verdict.unknown] == [story.ids[1]]


@pytest.mark.parametrize(
    ("words", "place", "uncommitted"),
    [
        ((), "before its first batch", None),
        (("batch 1",), "inside a batch", 1),
        (("batch 1", "written 1"), "in a commit", 1),
        (("batch 1", "written 1", "committed 1"), "between batches", None),
        (("batch 1", "written 1", "committed 1", "batch 2"), "inside a batch", 2),
    ],
)
def test_a_life_tells_where_it_ended(
    words: tuple[str, ...], place: str, uncommitted: int | None
) -> None:
    """The last word says what the worker was about, and all of them what it may have lost."""
    lived = Lived(number=0, words=words, code=-9)
    assert lived.place == place
    assert lived.uncommitted == uncommitted


def _names(versions: Iterable[Version]) -> list[tuple[str, int]]:
    return [(version.application_id, version.number) for version in versions]
