"""Amounts in words and as lengths."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from income_client.cli.looking.amounts import amount_text, exact_sum, share, short_text

_AMOUNTS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**15), max_value=10**15)


@given(st.lists(_AMOUNTS))
def test_sums_are_exact(amounts: list[Decimal]) -> None:
    """No digit of any amount is lost in a sum, however far they lie apart."""
    assume(all(each.as_tuple().exponent > -300 for each in amounts))  # type: ignore[operator]
    assert Fraction(exact_sum(amounts)) == sum(map(Fraction, amounts), Fraction(0))


@given(_AMOUNTS)
def test_text_has_every_digit_or_says_that_it_has_not(amount: Decimal) -> None:
    """What is shown is the amount itself, unless it is said to be rounded."""
    text = amount_text(amount)
    if not text.startswith("about "):
        assert Decimal(text.replace(",", "")) == amount
    assert len(text) <= 28


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "0.00"),
        ("-0", "0.00"),
        ("1E+3", "1,000.00"),
        ("1234567.5", "1,234,567.50"),
        ("-4321.09", "-4,321.09"),
        ("0.123", "0.123"),
        ("52000.100", "52,000.10"),
        ("999999999999999", "999,999,999,999,999.00"),
        ("1E-30", "about 1.000000e-30"),
    ],
)
def test_text(amount: str, text: str) -> None:
    """Thousands are grouped, and there are two decimals at the least."""
    assert amount_text(Decimal(amount)) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "0"),
        ("950.4", "950"),
        ("1234", "1.2k"),
        ("81234.5", "81k"),
        ("-4321.09", "-4.3k"),
        ("1234567", "1.2M"),
        ("999000000000", "999B"),
        ("1E+300", "1e+300"),
    ],
)
def test_short_text(amount: str, text: str) -> None:
    """Where there is little room, two digits or so are left."""
    assert short_text(Decimal(amount)) == text


@given(_AMOUNTS, _AMOUNTS)
def test_shares_lie_between_nothing_and_all(amount: Decimal, whole: Decimal) -> None:
    """A bar is never longer than its room, and never less than nothing."""
    assert 0.0 <= share(amount, whole) <= 1.0
