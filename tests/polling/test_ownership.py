"""The ownership of a poller's name: both tables, for every order of events."""

from itertools import product
from typing import Final

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client.checkpoints import StoredCheckpoint
from income_client.polling.checkpoint import Checkpoint
from income_client.polling.ownership import (
    Abandoned,
    Held,
    Hold,
    Lost,
    Overdue,
    Ownership,
    Released,
    Save,
)

NOTHING: Final = StoredCheckpoint(checkpoint=None, version=0)
OWN: Final = Checkpoint(since=0, reached=100, holder="own")
OTHER: Final = evolve(OWN, holder="other")
FIRST: Final = Save.following(NOTHING, OWN, 0.0)
GONE: Final = Lost(has_vanished=True)
TAKEN: Final = Lost(has_vanished=False)

CHANGES: Final[dict[Hold, set[Hold]]] = {
    Held(): {Abandoned(), Released(), Overdue(9.0), GONE, TAKEN},
    Abandoned(): {Released(), Overdue(9.0), GONE, TAKEN},
    Released(): set(),
    Overdue(9.0): set(),
    GONE: {TAKEN},
    TAKEN: {GONE},
}


@pytest.mark.parametrize(("before", "after"), [*product(CHANGES, CHANGES)])
def test_a_lease_that_was_given_up_or_lost_is_not_held_again(before: Hold, after: Hold) -> None:
    changed = evolve(Ownership(FIRST), hold=before).after_change(after)
    assert changed.hold == (after if after in CHANGES[before] else before)


class Store:
    """A store in which two pollers save, and some saves of the first are made later."""

    def __init__(self) -> None:
        self.held = FIRST.stored
        self.late: list[tuple[StoredCheckpoint, StoredCheckpoint]] = []

    def save(self, over: StoredCheckpoint, new: StoredCheckpoint) -> bool:
        """Compare and set; return whether the save was made."""
        is_made = self.held == over
        if is_made:
            self.held = new
        return is_made


@given(st.lists(st.sampled_from(["saved", "lost", "late", "arrives", "looks", "rival", "emptied"])))
def test_what_a_poller_believes_to_be_its_own_is(events: list[str]) -> None:
    """Also saves whose answer was lost, and those that are made after the store was asked."""
    store, ownership, reached = Store(), Ownership(FIRST), 100
    for event in events:
        match event:
            case "saved" | "lost" | "late":
                reached += 1
                over = ownership.last.stored
                sent = Save.following(over, evolve(OWN, reached=reached), 0.0)
                ownership = ownership.after_sending(sent)
                if event == "late":
                    store.late.append((over, sent.stored))
                elif store.save(over, sent.stored) and event == "saved":
                    ownership = ownership.after_confirmation()
                    assert ownership.last.stored == store.held
            case "arrives" if store.late:
                store.save(*store.late.pop())
            case "rival":
                store.held = Save.following(store.held, OTHER, 0.0).stored
            case "emptied":
                store.held = NOTHING
            case _:
                pass
        if event == "looks":
            seen = ownership.after_load(store.held)
            is_own = '"own"' in (store.held.checkpoint or "")
            if seen is None:
                assert not is_own
                assert ownership.after_loss(store.held).hold == (
                    GONE if store.held == NOTHING else TAKEN
                )
                return
            assert is_own
            assert seen.last.stored == store.held
            assert seen.sent is None
            ownership = seen


def test_a_store_that_went_back_is_not_the_pollers_own() -> None:
    """The store has the poller's mark, but the saves after it are lost."""
    later = Save.following(FIRST.stored, evolve(OWN, reached=103), 1.0)
    ownership = Ownership(FIRST).after_sending(later).after_confirmation()
    assert ownership.after_load(FIRST.stored) is None
    assert ownership.after_loss(FIRST.stored).hold == TAKEN


def test_a_text_with_its_members_in_another_order_is_the_pollers_own() -> None:
    text = (FIRST.stored.checkpoint or "").replace(" ", "")
    reordered = StoredCheckpoint(checkpoint=" " + text, version=FIRST.stored.version)
    seen = Ownership(FIRST).after_load(reordered)
    assert seen is not None
    assert seen.last is FIRST
