"""What a number given by the caller must be; raises, and says which number it is about.

The functions that are called ``check_`` are for arguments, the others for the fields of
attrs classes.
"""

import inspect
import math
from functools import partial
from typing import Any, TypeGuard

from attrs import Attribute

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
    if not is_number(value) or value <= 0:
        raise ConfigurationError(f"{name} is a finite number above 0")
    return float(value)


def check_not_negative(name: str, value: object) -> float:
    """Return a finite number that is 0 or more.

    Raises:
        ConfigurationError: it is another one, or none.
    """
    if not is_number(value) or value < 0:
        raise ConfigurationError(f"{name} is a finite number, 0 or more")
    return float(value)


def is_number(value: object) -> TypeGuard[int | float]:
    """Say whether this is a finite number, and no bool."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float comes near to
        return False


def is_plain_function(value: object) -> bool:
    """Say whether calling this does its work: a function that is neither awaited nor iterated."""
    while isinstance(value, partial):
        value = value.func
    # Of the class: a class itself is called by its metaclass.
    called = (value, type(value).__call__) if callable(value) else ()
    return bool(called) and not any(map(_is_put_off, called))


def _is_put_off(function: object) -> bool:
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    return any(is_kind(function) for is_kind in kinds)


def counting(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    """Validate a field as `check_count` does."""
    check_count(attribute.name, value)


def positive(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    """Validate a field as `check_positive` does."""
    check_positive(attribute.name.lstrip("_"), value)


def not_negative(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    """Validate a field as `check_not_negative` does."""
    check_not_negative(attribute.name, value)
