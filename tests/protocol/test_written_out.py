"""Values read in place: what the readers of single values give, text for text."""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.protocol import written_out
from income_client.protocol.scalars import READERS, Reader
from income_client.protocol.timestamps import has_hour_24
from income_client.records.fields import Amount, ServiceTime, UtcTime
from tests.support import strategies

REFUSED = "refused"


def _lines(kind: Any) -> list[str]:
    call = "x = read(x, None)"
    if kind is date:
        return written_out.day_lines("x")
    if kind is Decimal:
        return written_out.decimal_lines("x", call)
    if kind == Amount:
        return written_out.amount_lines("x", call)
    return written_out.time_lines("x", call, is_utc=kind == UtcTime)


def _in_place(kind: Any) -> Reader:
    lines = ["def read_in_place(x, _):", *(f"    {line}" for line in _lines(kind)), "    return x"]
    scope = {**written_out.SCOPE, "read": READERS[kind]}
    exec("\n".join(lines), scope)
    read: Reader = scope["read_in_place"]
    return read


def _outcome(read: Callable[[Any, Any], Any], value: object) -> Any:
    try:
        found = read(value, None)
    except Exception:  # noqa: BLE001 - any refusal is one
        return REFUSED
    return type(found), repr(found)


KINDS: tuple[Any, ...] = (date, ServiceTime, UtcTime, Decimal, Amount)
near_times = (
    st.from_regex(
        r"\d{4}-?[0-9W]{2}-?\d\d[Tt ]?([012]\d:?[0-5]\d(:?[0-6]\d)?)?([.,]\d{1,6})?(Z|[+-]\d\d)?",
        fullmatch=True,
    )
    | st.text("0123456789-:TWZ+., ", min_size=8, max_size=27)
    | st.from_regex(r"2024-W\d\d-\d(T1\d:00:00Z?)?|2024-01-31T24:00:00Z?", fullmatch=True)
    | st.from_regex(r"[0-9]{10}|[0-9-]{10}", fullmatch=True)
)
values: st.SearchStrategy[Any] = (
    near_times
    | strategies.times
    | strategies.utc_times
    | strategies.days
    | strategies.numbers
    | st.floats(-1e17, 1e17)
    | st.sampled_from([None, True, "", 1e15, -1e15, 10**15, 999999999999999.9, [], {}, ["T"] * 19])
)


@pytest.fixture(params=[True, False])
def _hour_24(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the lines of a language that reads 24:00, and of one that does not."""
    if has_hour_24() <= request.param:
        monkeypatch.setattr(written_out, "has_hour_24", lambda: request.param)


@pytest.mark.usefixtures("_hour_24")
@pytest.mark.parametrize("kind", KINDS)
def test_a_value_read_in_place_is_what_its_reader_gives(kind: Any) -> None:
    """Whatever stands there, both give the same value or both refuse it."""
    in_place, by_reader = _in_place(kind), READERS[kind]

    @given(values)
    def check(value: object) -> None:
        assert _outcome(in_place, value) == _outcome(by_reader, value)

    check()


def test_the_hour_24_is_looked_for_only_where_the_language_reads_it() -> None:
    """Midnight has one text in the contract, and the parser may know another."""
    try:
        datetime.fromisoformat("2024-01-31T24:00:00")
    except ValueError:
        assert "T24" not in "".join(_lines(ServiceTime))
    else:
        assert "T24" in "".join(_lines(ServiceTime))
    assert _outcome(_in_place(ServiceTime), "2024-01-31T24:00:00") == REFUSED
    assert _outcome(_in_place(UtcTime), "2024-01-31T24:00:00Z") == REFUSED
