"""Faults: errors for chosen requests, and their text form."""

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import unquote

from attrs import Factory, field, frozen
from attrs.validators import optional

from income_client.errors import ConfigurationError
from income_client.settings import (
    check_count,
    counting,
    invalid,
    is_number,
    not_negative,
    validated,
    whole,
    wrong,
)

from .api import API_CALLS, Call, call_of
from .service_rules import Choice, check_integer, integer, meant

ANY: Final = "any"
"""The three calls of the API, and neither tokens nor files."""
CALLS: Final = (*(call.value for call in API_CALLS), Call.TOKEN.value, Call.FILE.value)
"""The calls that a fault can name."""
_LEAST_STATUS: Final = 100


class FaultKind(Choice):
    """The kinds of faults of a reply."""

    STATUS = "status"
    RESET = "reset"
    DROP = "drop"
    CUT = "cut"
    STALL = "stall"
    TRICKLE = "trickle"
    GARBAGE = "garbage"
    REDIRECT = "redirect"
    BODY = "body"


_WITHHOLDING: Final = (FaultKind.RESET, FaultKind.DROP, FaultKind.STALL, FaultKind.GARBAGE)
"""Faults that leave the client without any part of a reply."""
USUAL_STATUS: Final = {FaultKind.STATUS: 503, FaultKind.REDIRECT: 307, FaultKind.BODY: 200}
"""Faults whose own reply stands in for the true one, and its usual status."""


def _kind(value: FaultKind | str) -> FaultKind:
    return FaultKind(value)


def _of_type(kind: type) -> Any:
    def check(name: str, value: object) -> None:
        if not isinstance(value, kind):
            raise invalid(name, f"of type {kind.__name__}", value)

    return validated(check)


def _check_status(name: str, value: Any) -> None:
    check_integer(name, value)
    if value < _LEAST_STATUS:
        raise invalid(name, "a status, 100 or more", value)


def _check_call(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise invalid(name, "the name of a call", value)
    if value != ANY and value not in CALLS:
        raise ConfigurationError(f"there is no call {value}{meant(value, (*CALLS, ANY))}")


def _check_retry_after(fault: "Fault", attribute: Any, value: Any) -> None:
    whole(fault, attribute, value)
    if fault.kind not in USUAL_STATUS:
        kinds = ", ".join(kind.value for kind in USUAL_STATUS)
        raise wrong("retry_after", f"goes with {kinds}, not with {fault.kind.value}")


def _check_share(name: str, value: object) -> None:
    if not is_number(value) or not 0 <= value <= 1:
        raise invalid(name, "a share from 0 to 1", value)


_is_str: Final = _of_type(str)
_is_status: Final = validated(_check_status)


def _usual_times(fault: "Fault") -> int | None:
    return 1 if fault.rate is None and fault.seconds is None else None


_USUAL_TIMES: Final[int | None] = Factory(_usual_times, takes_self=True)


@frozen
class Fault:
    """A fault and the requests that it affects.

    ``status``, ``redirect`` and ``body`` replace the reply; ``reset``, ``drop``,
    ``stall`` and ``garbage`` leave the client without one; ``cut``, ``trickle``
    and a ``stall`` that keeps something spoil the true reply on its way.

    Args:
        kind: a `FaultKind` or its name.

    Raises:
        ConfigurationError: the kind or the call is unknown, or a setting is invalid.
    """

    kind: FaultKind = field(converter=_kind)
    """Kind of the fault."""
    path: str = field(default="*", kw_only=True, validator=_is_str)
    """Pattern of the raw path, as in a shell."""
    method: str = field(default="*", kw_only=True, validator=_is_str)
    """Pattern of the HTTP method."""
    skip: int = field(default=0, kw_only=True, validator=whole)
    """Number of matching requests without the fault, before the first one with it."""
    status: int | None = field(default=None, kw_only=True, validator=optional(_is_status))
    """Status; 503, 307 for a redirect and 200 for a body unless given."""
    headers: Mapping[str, str] = field(factory=dict, kw_only=True, validator=_of_type(Mapping))
    """Header fields."""
    retry_after: int | None = field(
        default=None, kw_only=True, validator=optional(_check_retry_after)
    )
    """Seconds of the header Retry-After."""
    body: bytes = field(default=b"", kw_only=True, repr=False, validator=_of_type(bytes))
    """Content for the kinds ``status``, ``body`` and ``garbage``."""
    content_type: str = field(default="application/json", kw_only=True, validator=_is_str)
    """Media type of the content."""
    location: str = field(default="/", kw_only=True, validator=_is_str)
    """URL that a redirect leads to."""
    keep: int | None = field(default=None, kw_only=True, validator=optional(whole))
    """Bytes of the content that come first: in a cut half of them unless given, in a stall none."""
    interval: float = field(default=0.05, kw_only=True, validator=not_negative)
    """Seconds between two bytes of a trickle."""
    call: str | None = field(default=None, kw_only=True, validator=optional(validated(_check_call)))
    """A call such as ``get_application`` or ``file``, ``any`` of the API; None for all requests."""
    named: str | None = field(default=None, kw_only=True, validator=optional(_is_str))
    """Id of the application or document that the fault affects; None for all of them."""
    after: float = field(default=0.0, kw_only=True, validator=not_negative)
    """Seconds of service time from the fault's addition to its beginning."""
    seconds: float | None = field(default=None, kw_only=True, validator=optional(not_negative))
    """Duration in seconds of service time; None for no end."""
    rate: float | None = field(
        default=None, kw_only=True, validator=optional(validated(_check_share))
    )
    """Share of matching requests that the fault affects, from 0 to 1; None for all of them."""
    seed: int = field(default=7, kw_only=True, validator=integer)
    """Seed of the affected requests: equal seeds choose equal requests. Faults with one seed have
    shares that do not overlap."""
    times: int | None = field(default=_USUAL_TIMES, kw_only=True, validator=optional(counting))
    """Number of requests that the fault affects, None for all; by default one, or all with ``rate``
    or ``seconds``."""

    @property
    def withholds(self) -> bool:
        """Whether the client gets no part of a reply."""
        is_late = self.kind is FaultKind.STALL and self.keep is not None
        return self.kind in _WITHHOLDING and not is_late

    def matches(self, method: str, path: str) -> bool:
        """Return whether a request matches the fault's call and patterns, at any time.

        Args:
            method: HTTP method.
            path: raw path.
        """
        if not fnmatchcase(path, self.path) or not fnmatchcase(method, self.method):
            return False
        if self.named is not None and self.named not in map(unquote, path.split("/")):
            return False
        if self.call is None:
            return True
        call = call_of(path)
        return call in API_CALLS if self.call == ANY else call.value == self.call


def _count(text: str) -> int | None:
    return None if text == "all" else int(text)


def _share(text: str) -> float:
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


_SETTINGS: Final[Mapping[str, tuple[Callable[[str], float | None], str]]] = {
    "times": (_count, "a number of requests, or all"),
    "rate": (_share, "a share of the requests, such as 0.2 or 20%"),
    "seed": (int, "a whole number"),
    "after": (float, "a number of seconds"),
    "seconds": (float, "a number of seconds"),
    "retry_after": (int, "a whole number of seconds"),
    "interval": (float, "a number of seconds"),
    "keep": (int, "a number of bytes"),
    "status": (int, "a status"),
}
"""Settings of a fault in a script: field, parser and description."""
_HEAD: Final = re.compile(r"\s*(?P<call>\w+)\s*(?:\(\s*(?P<named>[^()]*?)\s*\)\s*)?:")
_STATUS: Final = re.compile(r"[1-5][0-9]{2}")
_TIMES: Final = re.compile(r"x([0-9]+)")
_INVALID_TOKEN: Final = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
_HTML: Final = b"<html><body>This page is not JSON.</body></html>"
WORDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ok": {},
    "expired_token": {"kind": FaultKind.STATUS, "status": 401, "headers": _INVALID_TOKEN},
    "malformed": {"kind": FaultKind.BODY, "body": b"{}"},
    "not_json": {"kind": FaultKind.BODY, "body": _HTML, "content_type": "text/html"},
    **{kind.value: {"kind": kind} for kind in FaultKind},
}
"""Words of a script, other than statuses, and the fields of their faults."""


def script(text: str) -> tuple[Fault, ...]:
    """Return the faults that a text describes, such as ``get_application: 500, ok x3, cut``.

    A line is about one call: list_applications, get_application, get_documents, token or
    file. ``any:`` is about the first three, ``get_application(app-1):`` about one
    application, and a line without a call about all requests. Its steps, with commas
    between, fall on one request after the other; those after the last step are served
    as usual.

    A step is a status, ``ok``, ``expired_token``, ``malformed`` (JSON without the fields of the
    contract), ``not_json`` or a `FaultKind`. Fields of `Fault` follow
    it: ``503 rate=20% seed=3``, ``429 retry-after=5``, ``503 after=10 seconds=30``, ``cut
    keep=3``, ``trickle interval=0.01``, ``redirect status=302``. A step falls on one
    request, on three with ``x3``, and on all with ``times=all``, a ``rate`` or ``seconds``.

    Args:
        text: lines, or the same with semicolons between.

    Raises:
        ConfigurationError: a line or a step cannot be read.
    """
    lines = re.split(r"[\n;]", text)
    return tuple(fault for line in lines if line.strip() for fault in _line_faults(line))


def _line_faults(line: str) -> Iterator[Fault]:
    head = _HEAD.match(line)
    where = {} if head is None else _requests(head)
    passed = 0
    for step in line[head.end() if head else 0 :].split(","):
        fields = _fields(step)
        if "kind" in fields:
            # Requests that an earlier step falls on never come as far as this one.
            yield Fault(**fields, **where, skip=passed)
        else:
            passed += _passed(fields)


def _requests(head: re.Match[str]) -> dict[str, Any]:
    """Return the fields of a fault that a line's call sets."""
    call = head["call"]
    if call in WORDS or _STATUS.fullmatch(call):
        share = f"{call} rate=5%"
        raise ConfigurationError(
            f"{call} is a fault, not a call: write '{share}' or 'file: {share}'"
        )
    return {"call": call, "named": head["named"] or None}


def _fields(step: str) -> dict[str, Any]:
    """Return the fields of the fault that a step describes; an ``ok`` has no kind."""
    word, *settings = step.split() or [""]
    if _STATUS.fullmatch(word):
        fields: dict[str, Any] = {"kind": FaultKind.STATUS, "status": int(word)}
    elif word in WORDS:
        fields = dict(WORDS[word])
    elif word == ANY or word in CALLS:
        raise ConfigurationError(f"a colon follows the call: '{word}: 503', not '{word} 503'")
    else:
        words = ("statuses from 100 to 599", *WORDS)
        raise ConfigurationError(f"there is no fault {word!r}{meant(word, words)}")
    for setting in settings:
        name, value = _setting(setting)
        if name in fields:
            raise ConfigurationError(f"{name} is given twice: {step.strip()}")
        fields[name] = value
    return fields


def _setting(text: str) -> tuple[str, float | None]:
    name, equals, value = _TIMES.sub(r"times=\1", text).partition("=")
    if not equals:
        raise ConfigurationError(f"a step is followed by name=value or x3, not by {text!r}")
    name = name.replace("-", "_")
    if name not in _SETTINGS:
        raise ConfigurationError(f"a fault has no setting {name!r}{meant(name, _SETTINGS)}")
    read, allowed = _SETTINGS[name]
    try:
        return name, read(value)
    except ValueError:
        raise invalid(name, allowed, value, may_show=True) from None


def _passed(fields: Mapping[str, Any]) -> int:
    """Return the number of requests without a fault that an ``ok`` stands for."""
    for name in fields.keys() - {"times"}:
        raise ConfigurationError(f"ok has no {name}: only a number follows it, as in 'ok x3'")
    return check_count("times", fields.get("times", 1))
