"""Faults that fall on a share of requests."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.cli.emulating.fault_shares import SharedFaults, read_fault_shares
from income_client.emulator import Fault, FaultKind
from income_client.emulator.service import Call

LIST = "/v1/income/applications"
ONE = f"{LIST}/app-0000000001"
PATHS = (LIST, ONE, f"{ONE}/documents", "/documents/doc-0000000001-01/x.pdf", "/token")


def test_each_part_is_a_fault_and_its_share() -> None:
    """Statuses and kinds, shares as numbers and percentages, of all calls or of one."""
    status, cut, throttled = read_fault_shares("503:0.05, cut:10%@file,429:.5@list")
    assert (status.fault.kind, status.fault.status) == (FaultKind.STATUS, 503)
    assert (status.share, status.call, status.fault.times) == (0.05, None, None)
    assert (cut.fault.kind, cut.share, cut.call) == (FaultKind.CUT, 0.1, Call.FILE)
    assert (throttled.share, throttled.call) == (0.5, Call.LIST_APPLICATIONS)
    assert throttled.fault.headers == {"Retry-After": "1"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "parts such as"),
        ("500", "parts such as"),
        ("500:0.1,", "parts such as"),
        ("500:-1", "parts such as"),
        ("500:2", "from 0 to 1"),
        ("500:101%", "from 0 to 1"),
        ("200:0.1", "from 400 to 599"),
        ("body:0.1", "reset, drop, cut"),
        ("500:0.1@files", "list, application, documents, file, token"),
        ("500:0.6,cut:0.6", "more than 1"),
        ("500:0.6,cut:0.6@file", "more than 1"),
    ],
)
def test_what_cannot_be_meant_is_told(text: str, said: str) -> None:
    """What is wrong is said with what would be right."""
    with pytest.raises(ValueError, match=said):
        read_fault_shares(text)


def test_shares_of_different_calls_do_not_add_up() -> None:
    """Each call has a whole of its own."""
    assert len(read_fault_shares("500:0.6@list,cut:0.6@file")) == 2
    assert len(read_fault_shares("500:0.7,502:0.2,503:0.1")) == 3


@given(seed=st.integers(), orders=st.permutations(list(product(PATHS, range(4)))))
def test_order_changes_nothing(seed: int, orders: list[tuple[str, int]]) -> None:
    """What falls on a path's first, second and third request hangs on the seed alone."""
    shares = read_fault_shares("503:0.3,cut:0.2@file,drop:10%")
    straight, mixed = SharedFaults(shares, seed=seed), SharedFaults(shares, seed=seed)
    expected = {path: [straight.take("GET", path) for _ in range(4)] for path in PATHS}
    found: dict[str, list[Fault | None]] = {path: [] for path in PATHS}
    for path, _ in orders:
        found[path].append(mixed.take("GET", path))
    assert found == expected
    assert straight.played == mixed.played
    assert mixed.requests == len(orders)


def test_shares_come_about() -> None:
    """Over many requests each fault falls on about its share, and the rest on none."""
    faults = SharedFaults(read_fault_shares("503:0.3,cut:0.2@list"), seed=7)
    met = Counter(str(faults.take("GET", LIST)) for _ in range(4000))
    assert sum(met.values()) == 4000
    assert 0.27 < faults.played["503"] / 4000 < 0.33
    assert 0.17 < faults.played["cut"] / 4000 < 0.23
    assert met["None"] == 4000 - faults.played.total()
    assert faults.summary().startswith(f"faults: {faults.played.total():,} of 4,000 requests (503 ")


def test_a_fault_of_one_call_leaves_others_alone() -> None:
    """Neither another call nor what only an emulator is asked meets it."""
    faults = SharedFaults(read_fault_shares("500:1@documents"), seed=7)
    assert [faults.take("GET", path) is None for path in PATHS] == [True, True, False, True, True]
    every = SharedFaults(read_fault_shares("500:100%"), seed=7)
    assert every.take("GET", "/") is None
    assert every.requests == 0
    assert every.summary() == "faults: 0 of 0 requests (none)"


def test_others_can_be_added() -> None:
    """Faults of a test's own are played where none of these falls."""
    faults = SharedFaults((), seed=7)
    faults.add(Fault("reset"))
    first, second = (faults.take("GET", LIST) for _ in range(2))
    assert first is not None
    assert (first.kind, second) == (FaultKind.RESET, None)
