"""What an argument of the emulator may be, said in one sentence where it is something else."""

import math
from collections.abc import Callable
from inspect import Parameter
from typing import Any, Final

from attrs import Attribute

from income_client.errors import ConfigurationError

Validator = Callable[[object, "Attribute[Any]", Any], None]
_BY_NAME: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def check_whole(name: str, value: object, *, least: int | None = None) -> None:
    """Refuse what is no whole number.

    Args:
        name: what the argument is called.
        value: what was given.
        least: the smallest that is taken; None for any.

    Raises:
        ConfigurationError: it is none, or smaller.
    """
    if type(value) is not int:
        raise ConfigurationError(f"{name} is a whole number, not {value!r}")
    if least is not None and value < least:
        raise ConfigurationError(f"{name} is {least} or more, not {value}")


def check_figure(name: str, value: object) -> None:
    """Refuse what is no finite number of 0 or more.

    Args:
        name: what the argument is called.
        value: what was given.

    Raises:
        ConfigurationError: it is none.
    """
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not math.isfinite(value)
        or value < 0
    ):
        raise ConfigurationError(f"{name} is a number, 0 or more, not {value!r}")


def whole(least: int | None = None) -> Validator:
    """Return a validator of a field that holds a whole number."""

    def check(_record: object, attribute: "Attribute[Any]", value: object) -> None:
        check_whole(attribute.name, value, least=least)

    return check


def figure() -> Validator:
    """Return a validator of a field that holds a number of 0 or more."""

    def check(_record: object, attribute: "Attribute[Any]", value: object) -> None:
        check_figure(attribute.name, value)

    return check


def instance(kind: type | tuple[type, ...], description: str) -> Validator:
    """Return a validator of a field that holds a value of a kind.

    Args:
        kind: the class, or one of several.
        description: what to call it, such as "a str".
    """

    def check(_record: object, attribute: "Attribute[Any]", value: object) -> None:
        if not isinstance(value, kind):
            given = type(value).__name__
            raise ConfigurationError(f"{attribute.name} is {description}, not {given}")

    return check
