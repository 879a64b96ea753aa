"""Faults in words: scripts for tests, shares for a command line, and the usual troubles by name."""

import re
from collections.abc import Iterator
from typing import Any, Final

from income_client.errors import ConfigurationError
from income_client.settings import check_whole

from .api import Call
from .faults import ANY, Fault
from .service_rules import meant

_LINE: Final = re.compile(r"(?P<call>\w+)\s*(?:\((?P<name>[^()]*)\))?\s*:(?P<steps>[^:]*)\Z")
_STEP: Final = re.compile(
    r"(?P<what>\w+)(?:\s+retry-after=(?P<delay>\d+))?(?:\s+x\s*(?P<times>[1-9]\d{0,8}))?\Z"
)
_STATUS: Final = re.compile(r"[1-5][0-9]{2}")
_KINDS: Final = ("reset", "drop", "cut", "stall", "trickle", "garbage")
_STEPS: Final = ("statuses from 100 to 599", "ok", "expired_token", *_KINDS)
_INVALID_TOKEN: Final = {"WWW-Authenticate": 'Bearer error="invalid_token"'}

_SHARE: Final = re.compile(
    rf"(?P<what>[45][0-9]{{2}}|{'|'.join(_KINDS)})"
    r":(?P<share>[0-9]*\.?[0-9]+)(?P<percent>%?)(@(?P<call>[a-z_]+))?"
)
_SHARE_CALLS: Final = {
    "list": Call.LIST_APPLICATIONS.value,
    "application": Call.GET_APPLICATION.value,
    "documents": Call.GET_DOCUMENTS.value,
    "file": Call.FILE.value,
    "token": Call.TOKEN.value,
}
_ROUNDING: Final = 1e-9


def script(text: str) -> tuple[Fault, ...]:
    """Return the faults that a text describes, such as ``get_application: 500, 500, ok, cut``.

    Args:
        text: lines of a call and the outcome of each of its requests in turn; those
            after the last step are served as usual. The call is list_applications,
            get_application, get_documents, token, file or any; ``get_application(app-1)``
            is about one application. A step is a status, ok, expired_token, reset,
            drop, cut, stall, trickle or garbage, with ``retry-after=2`` or ``x3`` behind it.

    Raises:
        ConfigurationError: a line or a step cannot be read.
    """
    lines = [line.strip() for line in re.split(r"[\n;]", text)]
    return tuple(fault for line in lines if line for fault in _line_faults(line))


def _line_faults(line: str) -> Iterator[Fault]:
    found = _LINE.match(line)
    if found is None:
        raise ConfigurationError(f"a line of a script is 'call: step, step', not {line!r}")
    named = (found["name"] or "").strip() or None
    passed = 0
    for step in map(str.strip, found["steps"].split(",")):
        parts = _STEP.match(step)
        if parts is None:
            raise ConfigurationError(
                "a step of a script is a status or a word, such as '503 retry-after=2 x3' or "
                f"'reset', not {step!r}"
            )
        times = int(parts["times"] or 1)
        # Requests that an earlier step falls on never come as far as this one.
        where: dict[str, Any] = {
            "call": found["call"], "named": named, "times": times, "skip": passed
        }  # fmt: skip
        what, delay = parts["what"], parts["delay"]
        if delay is not None and not _STATUS.fullmatch(what):
            raise ConfigurationError("only a status has a retry-after")
        if what == "ok":
            passed += times
        elif what == "expired_token":
            yield Fault("status", status=401, headers=_INVALID_TOKEN, **where)
        else:
            yield _fault(what, retry_after=delay, **where)


def _fault(what: str, *, retry_after: str | None, **where: Any) -> Fault:
    """Return the fault that a word or a status stands for."""
    if _STATUS.fullmatch(what):
        headers = {} if retry_after is None else {"Retry-After": retry_after}
        return Fault("status", status=int(what), headers=headers, **where)
    if what in _KINDS:
        return Fault(what, **where)
    raise ConfigurationError(f"there is no fault {what}{meant(what, _STEPS)}")


def fault_shares(text: str, *, seed: int = 7) -> tuple[Fault, ...]:
    """Return the faults of a text such as ``500:0.05,cut:1%@file``, in which no two overlap.

    Args:
        text: statuses from 400 on or kinds, each with its share of all requests, or of
            those of one call: list, application, documents, file or token.
        seed: decides which requests they fall on.

    Raises:
        ConfigurationError: a part cannot be read, or the shares of a call exceed 1.
    """
    faults: list[Fault] = []
    free = dict.fromkeys(_SHARE_CALLS.values(), 1.0)
    for place, part in enumerate(text.split(",")):
        found = _SHARE.fullmatch(part.strip())
        if found is None:
            raise ConfigurationError(
                f"faults are statuses from 400 to 599, {', '.join(_KINDS)}, each with a share: "
                "500:0.05, cut:5% or 429:0.1@list, with commas between"
            )
        share = float(found["share"]) / (100 if found["percent"] else 1)
        if share > 1:
            raise ConfigurationError("a share is a number from 0 to 1, or up to 100%")
        if found["call"] and found["call"] not in _SHARE_CALLS:
            raise ConfigurationError(f"a call is one of {', '.join(_SHARE_CALLS)}")
        calls = (_SHARE_CALLS[found["call"]],) if found["call"] else tuple(free)
        for call in calls:
            if share > free[call] + _ROUNDING:
                raise ConfigurationError("the shares of a call add up to more than 1")
            # A fault sees only what those before it have let pass.
            rate = min(1.0, share / free[call]) if share else 0.0
            free[call] -= share
            delay = "1" if found["what"] == "429" else None
            where: dict[str, Any] = {"call": call, "rate": rate, "seed": seed + place}
            faults.append(_fault(found["what"], retry_after=delay, times=None, **where))
    return tuple(faults)


def outage(
    seconds: float, *, after: float = 0.0, status: int = 503, call: str = ANY
) -> tuple[Fault, ...]:
    """Return a service that fails for a while.

    Args:
        seconds: how long, by the service's time, which a client's pauses move.
        after: seconds until it begins.
        status: what every request gets.
        call: which requests, as in a script.

    Raises:
        ConfigurationError: an argument is invalid.
    """
    return (Fault("status", status=status, call=call, times=None, after=after, seconds=seconds),)


def flaky(rate: float, *, seed: int = 7, status: int = 503, call: str = ANY) -> tuple[Fault, ...]:
    """Return a service that fails now and then; the same seed fails the same requests.

    Chance decides on every attempt anew, so that some calls fail for good: of those
    with three attempts, the usual number, about ``rate ** 3``. A test that reads many
    applications gives ``on_error="yield"``, or takes a seed that it gets through with.

    Args:
        rate: the share of requests that fail, from 0 to 1.
        seed: decides which ones.
        status: what they get.
        call: which requests, as in a script.

    Raises:
        ConfigurationError: an argument is invalid.
    """
    return (Fault("status", status=status, call=call, times=None, rate=rate, seed=seed),)


def throttled(retry_after: int, *, times: int = 1, call: str = ANY) -> tuple[Fault, ...]:
    """Return a service to which too many requests are made (429).

    Args:
        retry_after: seconds that it asks to wait.
        times: requests that are refused.
        call: which requests, as in a script.

    Raises:
        ConfigurationError: an argument is invalid.
    """
    check_whole("retry_after", retry_after)
    headers = {"Retry-After": str(retry_after)}
    return (Fault("status", status=429, headers=headers, times=times, call=call),)


def expired_token(*, times: int = 1, call: str = ANY) -> tuple[Fault, ...]:
    """Return a service that refuses a token as expired (contract section 5.1).

    Args:
        times: requests that are refused.
        call: which requests, as in a script.

    Raises:
        ConfigurationError: an argument is invalid.
    """
    return (Fault("status", status=401, headers=_INVALID_TOKEN, times=times, call=call),)


def cut_body(*, keep: int | None = None, times: int = 1, call: str = ANY) -> tuple[Fault, ...]:
    """Return a connection that breaks within the body of a reply.

    Args:
        keep: bytes that come first; half of them unless given.
        times: replies that are cut.
        call: which requests, as in a script.

    Raises:
        ConfigurationError: an argument is invalid.
    """
    return (Fault("cut", keep=keep, times=times, call=call),)


def slow(seconds_a_byte: float = 0.0001, *, times: int = 1, call: str = ANY) -> tuple[Fault, ...]:
    """Return replies that come byte by byte, in real time.

    Args:
        seconds_a_byte: pause between two bytes, in seconds.
        times: replies that are slow.
        call: which requests, as in a script.

    Raises:
        ConfigurationError: an argument is invalid.
    """
    return (Fault("trickle", interval=seconds_a_byte, times=times, call=call),)
