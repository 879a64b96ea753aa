"""What a number given by the caller must be; raises, and says which number it is about."""

import math
from typing import TypeGuard

from .errors import ConfigurationError


def check_count(name: str, value: object) -> int:
    """Return a whole number that is 1 or more, and no bool.

    Raises:
        ConfigurationError: it is another one, or none.
    """
    if type(value) is not int or value < 1:
        raise ConfigurationError(f"{name} is a whole number, 1 or more")
    return value


def check_positive(name: str, value: object) -> float:
    """Return a finite number above 0.

    Raises:
        ConfigurationError: it is another one, or none.
    """
    if not _is_number(value) or value <= 0:
        raise ConfigurationError(f"{name} is a finite number above 0")
    return float(value)


def check_not_negative(name: str, value: object) -> float:
    """Return a finite number that is 0 or more.

    Raises:
        ConfigurationError: it is another one, or none.
    """
    if not _is_number(value) or value < 0:
        raise ConfigurationError(f"{name} is a finite number, 0 or more")
    return float(value)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
