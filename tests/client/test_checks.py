"""Numbers of callers: whatever is none is told by name, and nothing else is raised."""

import math
from typing import Final

import pytest

from income_client.errors import ConfigurationError
from income_client.settings import check_count, check_not_negative, check_positive, is_number

NO_NUMBERS: Final[tuple[object, ...]] = (
    None, "1", True, math.nan, math.inf, -math.inf, 10**400, -(10**400), [], 1j,
)  # fmt: skip


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: repr(value)[:12])
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    """Whole numbers that no float comes near to among them."""
    assert not is_number(value)
    for check in (check_positive, check_not_negative):
        with pytest.raises(ConfigurationError, match="pause"):
            check("pause", value)


@pytest.mark.parametrize("value", [0, 0.0, 1, 1.5, 2**60])
def test_numbers_come_out_as_floats(value: float) -> None:
    """From 0 on, or above it."""
    assert is_number(value)
    assert check_not_negative("pause", value) == float(value)
    if value:
        assert check_positive("pause", value) == float(value)


def test_signs_and_fractions_are_told() -> None:
    """Each check has its range."""
    for check, number in ((check_positive, 0), (check_not_negative, -1)):
        with pytest.raises(ConfigurationError):
            check("pause", number)
    for value in (0, -1, 1.0, True, "1"):
        with pytest.raises(ConfigurationError, match="queue"):
            check_count("queue", value)
    assert check_count("queue", 7) == 7
