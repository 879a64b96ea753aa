"""Rules for the behaviour that the contract leaves open, one field for each."""

import enum
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any, Final, NoReturn

from attrs import evolve, field, fields_dict, frozen
from attrs.validators import optional

from income_client.errors import ConfigurationError
from income_client.settings import counting, flag, invalid, validated, whole

_BY_NAME: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class Choice(enum.Enum):
    """An enum of options; an invalid value is a configuration error that names all options."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:  # noqa: ARG003 - as the standard library calls it
        names = ", ".join(choice.value for choice in cls)
        raise ConfigurationError(f"{cls.__name__} must be one of {names}")


class Order(Choice):
    """Order of the rows of the list, which decides the rows that a full page hides."""

    ASCENDING = "ascending"
    DESCENDING = "descending"
    SHUFFLED = "shuffled"
    RANDOM = "random"


class SpanClamp(Choice):
    """Bound that the service moves when a window is wider than it serves."""

    AFTER = "after"
    BEFORE = "before"


class FutureBounds(Choice):
    """Treatment of a bound after the present second."""

    ACCEPT = "accept"
    CLAMP = "clamp"
    REFUSE = "refuse"


def _to_order(value: Order | str) -> Order:
    return Order(value)


def _to_span_clamp(value: SpanClamp | str) -> SpanClamp:
    return SpanClamp(value)


def _to_future_bounds(value: FutureBounds | str) -> FutureBounds:
    return FutureBounds(value)


def check_integer(name: str, value: object) -> None:
    """Raise unless the value is a whole number, and not a bool."""
    if type(value) is not int:
        raise invalid(name, "a whole number", value)


integer: Final = validated(check_integer)


@frozen(kw_only=True)
class ServiceRules:
    """One way to fill the gaps of the contract; every time is in seconds.

    Raises:
        ConfigurationError: a figure or a choice is invalid.
    """

    lower_closed: bool = field(default=False, validator=flag)
    """Whether a row updated in the very second ``updated_after`` is returned."""
    upper_closed: bool = field(default=False, validator=flag)
    """Whether a row updated in the very second ``updated_before`` is returned."""
    order: Order = field(default=Order.ASCENDING, converter=_to_order)
    """Order of the rows; shuffled stays the same for the same question, random never does."""
    max_span: int | None = field(default=None, validator=optional(counting))
    """Widest window that is served; a wider one is narrowed and echoed so."""
    span_clamp: SpanClamp = field(default=SpanClamp.AFTER, converter=_to_span_clamp)
    """The bound that is moved for ``max_span``."""
    oldest: int | None = field(default=None, validator=optional(integer))
    """First service second that is kept; an earlier ``updated_after`` is raised to it."""
    future: FutureBounds = field(default=FutureBounds.ACCEPT, converter=_to_future_bounds)
    """Bounds in the future: taken as they are, lowered to the present, or refused with 400."""
    default_span: int | None = field(default=None, validator=optional(whole))
    """Seconds that an unset ``updated_after`` reaches back; None for the beginning of time."""
    visibility_delay: int = field(default=0, validator=whole)
    """Seconds until an update shows in the list; meanwhile the row stays at its old place."""
    clock_offset: int = field(default=0, validator=integer)
    """Seconds that the Date header runs ahead of service time."""
    token_lifetime: int = field(default=3600, validator=counting)
    """Seconds for which an access token is valid."""
    url_lifetime: int = field(default=900, validator=counting)
    """Seconds for which a download URL is valid."""
    url_age: int = field(default=0, validator=whole)
    """Seconds of a URL's life that are over when it is sent; all of them: expired."""
    url_signed_once: bool = field(default=False, validator=flag)
    """Whether URLs are signed once and never change, expired or not."""
    file_bytes: int = field(default=20_000, validator=counting)
    """Size of a document file in bytes; another size makes another file."""
    file_redirects: int = field(default=0, validator=whole)
    """Number of redirects to the other region before the storage serves a file."""


def changed_rules(
    rules: ServiceRules | None, knobs: Mapping[str, Any], others: Iterable[str] = ()
) -> ServiceRules:
    """Return rules with other values for some fields; ``others`` are more names for the error."""
    if rules is not None and not isinstance(rules, ServiceRules):
        raise invalid("rules", "ServiceRules", rules)
    check_names("Emulator", knobs, (*others, *fields_dict(ServiceRules)))
    return evolve(rules or ServiceRules(), **knobs)


def meant(name: str, choices: Iterable[str]) -> str:
    """Return the end of a sentence that refuses a name: the closest choice, or all choices."""
    names = tuple(choices)
    close = get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(names)}"


def names_of(called: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of a function's or a class's arguments."""
    parameters = signature(called).parameters.values()
    return tuple(each.name for each in parameters if each.kind in _BY_NAME)


def check_names(owner: str, options: Iterable[str], names: Iterable[str]) -> None:
    """Raise for the first option that does not have one of the names; suggest the closest name."""
    unique_names = tuple(dict.fromkeys(names))
    for option in options:
        if option not in unique_names:
            raise ConfigurationError(f"{owner} has no option {option}{meant(option, unique_names)}")
