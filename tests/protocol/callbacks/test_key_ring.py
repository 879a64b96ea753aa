"""When a key set may be asked for, and how long what it held serves."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from income_client.protocol.callbacks.key_ring import (
    FETCH_EVERY,
    KEPT_FOR,
    RENEWED_AFTER,
    KeyRing,
    KeyStep,
)
from income_client.protocol.callbacks.refusals import Refusal
from income_client.protocol.callbacks.token_keys import TokenKeys, import_keys
from tests.support.signed_tokens import key_set

START: Final = 1000.0
KEYS: Final = import_keys(key_set("P-256"))
OTHERS: Final = import_keys(key_set("P-384"))


def asked(ring: KeyRing, now: float, keys: TokenKeys | None) -> None:
    """Make a request at a moment, and let it bring something."""
    ring.begin(now)
    ring.receive(keys)


def filled() -> KeyRing:
    """Return a ring that knows keys."""
    ring = KeyRing()
    asked(ring, START, KEYS)
    return ring


def test_an_empty_ring_wants_keys_first() -> None:
    """Nothing is fetched before the first token, and everything waits for it then."""
    ring = KeyRing()
    assert ring.keys(START) is None
    assert ring.next(START) is KeyStep.FETCH


def test_keys_serve_and_are_renewed_while_they_do() -> None:
    """After ten minutes newer ones are asked for."""
    ring = filled()
    assert ring.next(START + RENEWED_AFTER - 1) is KeyStep.USE
    assert ring.next(START + RENEWED_AFTER) is KeyStep.RENEW
    assert ring.keys(START + RENEWED_AFTER) is KEYS
    asked(ring, START + RENEWED_AFTER, OTHERS)
    assert ring.keys(START + RENEWED_AFTER) is OTHERS
    assert ring.next(START + RENEWED_AFTER) is KeyStep.USE


def test_an_unknown_key_leads_to_a_request_but_not_at_once_again() -> None:
    """A key is unknown if it is in no answer that was asked for since; else it may be new."""
    ring = filled()
    soon = START + FETCH_EVERY - 1
    assert ring.next(soon, is_key_unknown=True) is KeyStep.USE
    assert ring.unknown_refusal(soon, since=START) is Refusal.TOKEN_KEY_UNKNOWN
    assert ring.unknown_refusal(soon, since=START + 1) is Refusal.KEYS_UNAVAILABLE
    assert ring.next(START + FETCH_EVERY, is_key_unknown=True) is KeyStep.FETCH


def test_a_failed_request_keeps_the_keys_and_pauses() -> None:
    """Meanwhile nobody can say whether an unknown key is a new one."""
    ring = filled()
    late = START + RENEWED_AFTER
    asked(ring, late, None)
    assert ring.keys(late) is KEYS
    assert ring.next(late + FETCH_EVERY - 1, is_key_unknown=True) is KeyStep.USE
    assert ring.unknown_refusal(late + 1, since=0) is Refusal.KEYS_UNAVAILABLE
    assert ring.next(late + FETCH_EVERY) is KeyStep.RENEW


def test_without_keys_a_failure_is_ours_and_not_the_tokens() -> None:
    """The service is to send again, since the token may be good."""
    ring = KeyRing()
    asked(ring, START, None)
    assert ring.next(START + 1) is KeyStep.USE
    assert ring.unknown_refusal(START + 1, since=0) is Refusal.KEYS_UNAVAILABLE
    assert ring.next(START + FETCH_EVERY) is KeyStep.FETCH


def test_a_request_that_was_given_up_is_a_failure() -> None:
    """Nobody knows what it would have brought."""
    ring = filled()
    ring.begin(START + 60)
    assert ring.keys(START + 61) is KEYS
    assert ring.next(START + 61, is_key_unknown=True) is KeyStep.USE
    assert ring.unknown_refusal(START + 61, since=0) is Refusal.KEYS_UNAVAILABLE


def test_a_set_without_usable_keys_is_a_failure() -> None:
    """An empty answer does not take the keys away."""
    ring = filled()
    asked(ring, START + 700, TokenKeys())
    assert ring.keys(START + 700) is KEYS
    assert ring.unknown_refusal(START + 700, since=0) is Refusal.KEYS_UNAVAILABLE


def test_keys_count_for_nothing_after_a_day() -> None:
    """A key that was withdrawn does not serve for ever because its address is gone."""
    ring = filled()
    end = START + KEPT_FOR
    asked(ring, end - 60, None)
    assert ring.keys(end - 1) is KEYS
    assert ring.keys(end) is None
    assert ring.next(end) is KeyStep.FETCH
    assert ring.unknown_refusal(end, since=0) is Refusal.KEYS_UNAVAILABLE


_moves = st.lists(
    st.tuples(st.floats(0, 1000), st.booleans(), st.sampled_from([None, KEYS, OTHERS, TokenKeys()]))
)


@given(_moves)
def test_there_is_never_more_than_one_request_in_its_time(
    moves: list[tuple[float, bool, TokenKeys | None]],
) -> None:
    """However many tokens come, known or not, and whatever the answers are."""
    ring, now, requests = KeyRing(), START, [float("-inf")]
    for pause, is_key_unknown, answer in moves:
        now += pause
        if ring.next(now, is_key_unknown=is_key_unknown) is not KeyStep.USE:
            assert now >= requests[-1] + FETCH_EVERY
            requests.append(now)
            asked(ring, now, answer)


@given(_moves)
def test_keys_once_known_keep_serving(
    moves: list[tuple[float, bool, TokenKeys | None]],
) -> None:
    """Failures take nothing away for a day; the newest answer that had keys counts."""
    ring, now = KeyRing(), START
    newest: TokenKeys | None = None
    newest_at = START
    for pause, is_key_unknown, answer in moves:
        now += pause
        if ring.next(now, is_key_unknown=is_key_unknown) is not KeyStep.USE:
            asked(ring, now, answer)
            if answer is not None and answer.keys:
                newest, newest_at = answer, now
        assert ring.keys(now) is (newest if now < newest_at + KEPT_FOR else None)
