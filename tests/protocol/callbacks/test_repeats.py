"""Callbacks that were handled are known for a while, and no longer."""

from income_client.protocol.callbacks.repeats import Repeats, digest_of

FIRST, SECOND = digest_of(b"{}"), digest_of(b"[]")


def test_what_was_handled_is_known() -> None:
    """And nothing else is."""
    repeats = Repeats(window=60.0)
    assert not repeats.holds(FIRST, now=0.0)
    repeats.add(FIRST, now=0.0)
    assert repeats.holds(FIRST, now=59.9)
    assert not repeats.holds(SECOND, now=1.0)


def test_it_is_forgotten_after_its_time() -> None:
    """Counted from the last one."""
    repeats = Repeats(window=60.0)
    repeats.add(FIRST, now=0.0)
    repeats.add(FIRST, now=50.0)
    assert repeats.holds(FIRST, now=100.0)
    assert not repeats.holds(FIRST, now=110.0)


def test_memory_is_bounded() -> None:
    """By time, and by number."""
    repeats = Repeats(window=60.0)
    for number in range(20_000):
        repeats.add(digest_of(b"%d" % number), now=0.0)
    assert len(repeats) == 10_000
    repeats.add(FIRST, now=60.0)
    assert len(repeats) == 1


def test_no_window_remembers_nothing() -> None:
    """Whoever wants to be told of none."""
    repeats = Repeats(window=0.0)
    repeats.add(FIRST, now=0.0)
    assert len(repeats) == 0
