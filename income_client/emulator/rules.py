"""What the contract leaves open about the service, one field for each; knows no data."""

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from attrs import evolve, field, fields_dict, frozen
from attrs.validators import optional

from income_client.errors import ConfigurationError

from .arguments import check_names, instance, whole

_Choice = TypeVar("_Choice", bound=enum.Enum)


class Order(enum.Enum):
    """In which order the list gives its rows, and so which ones a full page hides."""

    ASCENDING = "ascending"
    DESCENDING = "descending"
    SHUFFLED = "shuffled"
    RANDOM = "random"


class SpanClamp(enum.Enum):
    """Which bound the service moves when a window is wider than it serves."""

    AFTER = "after"
    BEFORE = "before"


class FutureBounds(enum.Enum):
    """What the service does with a bound that lies behind the present second."""

    ACCEPT = "accept"
    CLAMP = "clamp"
    REFUSE = "refuse"


def _choice(kind: type[_Choice]) -> Callable[[object], _Choice]:
    def convert(value: object) -> _Choice:
        known = [choice for choice in kind if value in (choice, choice.value)]
        if not known:
            names = ", ".join(str(choice.value) for choice in kind)
            raise ConfigurationError(f"{kind.__name__} is one of {names}")
        return known[0]

    return convert


def _order(value: "Order | str") -> Order:
    return _choice(Order)(value)


def _span_clamp(value: "SpanClamp | str") -> SpanClamp:
    return _choice(SpanClamp)(value)


def _future(value: "FutureBounds | str") -> FutureBounds:
    return _choice(FutureBounds)(value)


_IS_BOOL = instance(bool, "True or False")


@frozen(kw_only=True)
class ServiceRules:
    """One way to read the contract where it is silent; every time is in seconds.

    Raises:
        ConfigurationError: a figure or a choice cannot be meant.
    """

    lower_closed: bool = field(default=False, validator=_IS_BOOL)
    """Whether a row updated in the very second ``updated_after`` is returned."""
    upper_closed: bool = field(default=False, validator=_IS_BOOL)
    """Whether a row updated in the very second ``updated_before`` is returned."""
    order: Order = field(default=Order.ASCENDING, converter=_order)
    """Order of the rows; shuffled stays the same for the same question, random never does."""
    max_span: int | None = field(default=None, validator=optional(whole(least=1)))
    """Widest window that is served; a wider one is narrowed and echoed so."""
    span_clamp: SpanClamp = field(default=SpanClamp.AFTER, converter=_span_clamp)
    """The bound that is moved for ``max_span``."""
    oldest: int | None = field(default=None, validator=optional(whole()))
    """First service second that is kept; an earlier ``updated_after`` is raised to it."""
    future: FutureBounds = field(default=FutureBounds.ACCEPT, converter=_future)
    """Bounds in the future: taken as they are, lowered to the present, or refused with 400."""
    default_span: int | None = field(default=None, validator=optional(whole(least=0)))
    """Seconds that an unset ``updated_after`` reaches back; None for the beginning of time."""
    visibility_delay: int = field(default=0, validator=whole(least=0))
    """Seconds until an update shows in the list; meanwhile the row stays at its old place."""
    clock_offset: int = field(default=0, validator=whole())
    """Seconds that the Date header runs ahead of service time."""
    token_lifetime: int = field(default=3600, validator=whole(least=1))
    """Seconds that an access token lives."""
    url_lifetime: int = field(default=900, validator=whole(least=1))
    """Seconds that a download address lives."""
    url_age: int = field(default=0, validator=whole(least=0))
    """Seconds of its life that are over when an address is handed out; all of them: expired."""
    url_signed_once: bool = field(default=False, validator=_IS_BOOL)
    """Whether addresses are signed at the very beginning and never change, expired or not."""
    file_bytes: int = field(default=20_000, validator=whole(least=1))
    """Size of a document file, in bytes; another size is another file."""
    file_redirects: int = field(default=0, validator=whole(least=0))
    """How often the host of files sends on to its other region before it gives a file."""


def changed_rules(
    rules: ServiceRules | None, knobs: Mapping[str, Any], others: Iterable[str] = ()
) -> ServiceRules:
    """Return rules of which some fields are replaced.

    Args:
        rules: what to begin with; the usual ones unless given.
        knobs: new values by field.
        others: names that the emulator takes besides, for the message.

    Raises:
        ConfigurationError: these are no rules, a knob does not exist, or its
            value cannot be meant.
    """
    if rules is not None and not isinstance(rules, ServiceRules):
        raise ConfigurationError(f"rules are ServiceRules, not {rules!r}")
    check_names("Emulator", knobs, (*others, *fields_dict(ServiceRules)))
    return evolve(rules or ServiceRules(), **knobs)
