"""Settings are values: what they show, when they are equal, and what they refuse."""

import copy
import pickle

from attrs import evolve

from income_client import RetryPolicy, Secret, Timeouts


def test_a_timeout_that_is_not_given_has_its_default() -> None:
    """Each can be read, whether it was given or not."""
    timeouts = Timeouts(read=5)
    assert (timeouts.connect, timeouts.read, timeouts.deadline) == (10, 5, 120)


def test_timeouts_show_what_was_given() -> None:
    """The text of a value is what it is made of."""
    assert repr(Timeouts()) == "Timeouts()"
    assert repr(Timeouts(deadline=2, read=0.5)) == "Timeouts(read=0.5, deadline=2)"


def test_timeouts_are_equal_if_the_same_was_given() -> None:
    """A default that was given is not the same: it takes the place of a client's own limit."""
    assert Timeouts(read=30) == Timeouts(read=30.0)
    assert hash(Timeouts(read=30)) == hash(Timeouts(read=30.0))
    assert Timeouts(connect=None) == Timeouts()
    assert Timeouts(read=30) != Timeouts()
    assert Timeouts(read=30) != Timeouts(read=31)


def test_timeouts_are_copied_as_they_are() -> None:
    """What was not given is not given in a copy either."""
    timeouts = Timeouts(deadline=2)
    assert copy.copy(timeouts) == pickle.loads(pickle.dumps(timeouts)) == timeouts
    assert evolve(timeouts, read=3) == Timeouts(read=3, deadline=2)


def test_a_budget_may_be_nothing() -> None:
    """Then nothing is retried."""
    assert RetryPolicy(budget=0).budget == 0


def test_secrets_are_compared_by_their_text() -> None:
    """Half a character, as in undecodable bytes of the environment, is compared like any other."""
    assert Secret("a\udcff") == Secret("a\udcff") != Secret("a")
