"""What an argument of the emulator may be, said in one sentence where it is something else."""

import math
from collections.abc import Callable, Iterable
from datetime import datetime
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any, Final

from attrs import Attribute

from income_client.errors import ConfigurationError

Validator = Callable[[object, "Attribute[Any]", Any], None]
_BY_NAME: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def meant(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that refuses a name: the closest one, or all there are.

    Args:
        name: what was given.
        known: what could have been.
    """
    names = tuple(known)
    close = get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(names)}"


def names_of(called: Callable[..., object]) -> tuple[str, ...]:
    """Return the names by which arguments can be given to a function or a class.

    Args:
        called: which one.
    """
    parameters = signature(called).parameters.values()
    return tuple(each.name for each in parameters if each.kind in _BY_NAME)


def check_names(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse options that there are not.

    Args:
        owner: whose options they are.
        given: their names.
        known: the names that there are; any of them may come twice.

    Raises:
        ConfigurationError: one is unknown; the message has the closest.
    """
    names = tuple(dict.fromkeys(known))
    for name in given:
        if name not in names:
            raise ConfigurationError(f"{owner} has no option {name}{meant(name, names)}")


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


def check_moment(name: str, value: object) -> None:
    """Refuse what is no time without zone.

    Args:
        name: what the argument is called.
        value: what was given.

    Raises:
        ConfigurationError: it is none.
    """
    if not isinstance(value, datetime) or value.tzinfo is not None:
        raise ConfigurationError(f"{name} is a datetime without zone, not {value!r}")


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
