"""Faults in words: a script read from a line of text, and one function for each usual trouble.

Decides which faults are meant; plays nothing.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from income_client import ConfigurationError
from income_client.emulator import Fault
from income_client.emulator.arguments import check_figure, check_whole
from income_client.emulator.rules import meant

from .planned_faults import CALLS, PlannedFault

_LINE: Final = re.compile(r"(?P<call>\w+)\s*(?:\((?P<name>[^()]*)\))?\s*:(?P<steps>[^:]*)\Z")
_STEP: Final = re.compile(
    r"(?P<what>\w+)(?:\s+retry-after=(?P<pause>\d+))?(?:\s+x\s*(?P<times>[1-9]\d*))?\Z"
)
_STATUS: Final = re.compile(r"[1-5]\d\d\Z")
_KINDS: Final = ("reset", "drop", "cut", "stall", "garbage")
_WORDS: Final = ("ok", "expired_token", *_KINDS)
_STEPS: Final = ("statuses from 100 to 599", *_WORDS)
_PAUSE: Final = "retry-after"
_INVALID_TOKEN: Final = {"WWW-Authenticate": 'Bearer error="invalid_token"'}

Faults = tuple[Fault, ...]
"""What one script comes to."""


def script(text: str) -> Faults:
    """Return the faults that a text describes, such as ``get_application: 500, 500, ok, cut``.

    Args:
        text: lines of a call and what becomes of each of its requests in turn; those
            after the last step are served as usual. The call is list_applications,
            get_application, get_documents, token, file or any; ``get_application(app-1)``
            is about one application. A step is a status, ok, expired_token, reset,
            drop, cut, stall or garbage, with ``retry-after=2`` or ``x3`` behind it.

    Raises:
        ConfigurationError: a line or a step cannot be read.
    """
    lines = [line.strip() for line in re.split(r"[\n;]", text)]
    return tuple(fault for line in lines if line for fault in _line(line))


def _line(line: str) -> Iterator[Fault]:
    found = _LINE.match(line)
    if found is None:
        raise ConfigurationError(f"a line of a script is 'call: step, step', not {line!r}")
    call = _call(found["call"])
    named = (found["name"] or "").strip() or None
    passed = 0
    for step in map(str.strip, found["steps"].split(",")):
        parts = _STEP.match(step)
        if parts is None:
            raise ConfigurationError(_unreadable(step))
        times = int(parts["times"] or 1)
        if parts["what"] == "ok":
            passed += times
            continue
        # Requests that an earlier step falls on never come as far as this one.
        where: dict[str, Any] = {"call": call, "named": named, "times": times, "skip": passed}
        yield _step(parts["what"], parts["pause"], where)


def _step(what: str, pause: str | None, where: Mapping[str, Any]) -> Fault:
    headers = {} if pause is None else {"Retry-After": pause}
    if _STATUS.match(what):
        return PlannedFault("status", status=int(what), headers=headers, **where)
    if pause is not None:
        raise ConfigurationError("only a status has a retry-after")
    if what == "expired_token":
        return PlannedFault("status", status=401, headers=_INVALID_TOKEN, **where)
    if what in _KINDS:
        return PlannedFault(what, **where)
    raise ConfigurationError(f"there is no step {what}{meant(what, _STEPS)}")


def _unreadable(step: str) -> str:
    said = "a step of a script is a status or a word, such as '503 retry-after=2 x3' or 'reset'"
    options = [option.partition("=")[0] for option in step.split()[1:]]
    close = [name for name in options if get_close_matches(name, [_PAUSE])]
    is_misspelt = bool(close) and _PAUSE not in close
    return f"{said}, not {step!r}{f'; did you mean {_PAUSE}?' if is_misspelt else ''}"


def _call(name: str) -> str | None:
    if name == "any":
        return None
    if not isinstance(name, str):
        raise ConfigurationError(f"call is a str, not {type(name).__name__}")
    if name not in CALLS:
        raise ConfigurationError(f"there is no call {name}{meant(name, (*CALLS, 'any'))}")
    return name


def outage(seconds: float, *, after: float = 0.0, status: int = 503, call: str = "any") -> Faults:
    """Return a service that fails for a while.

    Args:
        seconds: how long, by the service's time, which a client's pauses move.
        after: seconds until it begins.
        status: what every request gets.
        call: which requests, as in a script.

    Raises:
        ConfigurationError: an argument cannot be meant.
    """
    fault = PlannedFault(
        "status", status=status, call=_call(call), times=None, after=after, seconds=seconds
    )
    return (fault,)


def flaky(rate: float, *, seed: int = 7, status: int = 503, call: str = "any") -> Faults:
    """Return a service that fails now and then; the same seed fails the same requests.

    Chance decides on every attempt anew, so that some calls fail for good: of those
    with three attempts, the usual number, about ``rate ** 3``. A test that reads many
    applications gives ``on_error="yield"``, or takes a seed that it gets through with.

    Args:
        rate: the share of requests that fail, from 0 to 1.
        seed: what chance hangs on.
        status: what they get.
        call: which requests, as in a script.

    Raises:
        ConfigurationError: an argument cannot be meant.
    """
    check_figure("rate", rate)
    if rate > 1:
        raise ConfigurationError(f"rate is a share from 0 to 1, not {rate!r}")
    fault = PlannedFault(
        "status", status=status, call=_call(call), times=None, rate=rate, seed=seed
    )
    return (fault,)


def throttled(retry_after: int, *, times: int = 1, call: str = "any") -> Faults:
    """Return a service to which too much is asked (429).

    Args:
        retry_after: seconds that it asks to wait.
        times: requests that are refused.
        call: which requests, as in a script.

    Raises:
        ConfigurationError: an argument cannot be meant.
    """
    check_whole("retry_after", retry_after, least=0)
    headers = {"Retry-After": str(retry_after)}
    return (PlannedFault("status", status=429, headers=headers, times=times, call=_call(call)),)


def expired_token(*, times: int = 1, call: str = "any") -> Faults:
    """Return a service that refuses a token as expired (contract section 5.1).

    Args:
        times: requests that are refused.
        call: which requests, as in a script.

    Raises:
        ConfigurationError: an argument cannot be meant.
    """
    return (
        PlannedFault("status", status=401, headers=_INVALID_TOKEN, times=times, call=_call(call)),
    )


def cut_body(*, keep: int | None = None, times: int = 1, call: str = "any") -> Faults:
    """Return a connection that breaks within the body of a reply.

    Args:
        keep: bytes that come first; half of them unless given.
        times: replies that are cut.
        call: which requests, as in a script.

    Raises:
        ConfigurationError: an argument cannot be meant.
    """
    return (PlannedFault("cut", keep=keep, times=times, call=_call(call)),)


def slow(seconds_a_byte: float = 0.0001, *, times: int = 1, call: str = "any") -> Faults:
    """Return replies that come byte by byte, in real time.

    Args:
        seconds_a_byte: pause between two bytes, in seconds.
        times: replies that are slow.
        call: which requests, as in a script.

    Raises:
        ConfigurationError: an argument cannot be meant.
    """
    return (PlannedFault("trickle", interval=seconds_a_byte, times=times, call=_call(call)),)
