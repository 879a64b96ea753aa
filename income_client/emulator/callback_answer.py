"""What an attempt to send a callback came to, and the whole of a delivery; sends nothing."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Self

import msgspec
from attrs import field, frozen

_LONGEST_NUMBER: Final = 9


@frozen(kw_only=True)
class CallbackAnswer:
    """The answer of an endpoint, or the fault that stands for having none."""

    status: int | None = None
    """HTTP status; None where no answer came."""
    fault: str = ""
    """Why none came: refused, unreachable, tls, timeout, dropped, reset, cut_short, unreadable,
    failed or closed; ``token_`` and one of these, or a status, where no token could be had."""
    body: bytes = field(default=b"", repr=False)
    """The content."""
    retry_after: float | None = None
    """Seconds that the answer asks for; a date is not read."""

    @property
    def is_fault(self) -> bool:
        """Whether no answer came."""
        return self.status is None

    @property
    def outcome(self) -> int | str:
        """The status, or the name of the fault."""
        return self.fault if self.status is None else self.status

    @property
    def is_json(self) -> bool:
        """Whether the content is JSON, which the service is assumed to require."""
        return json_of(self.body) is not None


@frozen(kw_only=True)
class CallbackDelivery:
    """What became of one callback."""

    application_id: str | None
    """The application it was about, if any."""
    event_type: str | None
    """What it said had happened."""
    attempts: tuple[int | str, ...]
    """What each attempt came to, in order: a status, or the name of a fault."""
    is_json: bool
    """Whether the last answer was JSON, as the service is assumed to require."""

    @property
    def delivered(self) -> bool:
        """Whether the last answer was 200, which the service is assumed to expect."""
        return self.attempts[-1:] == (HTTPStatus.OK,)

    def facts(self) -> dict[str, Any]:
        """Return it as JSON's own values."""
        return {
            "application_id": self.application_id,
            "event_type": self.event_type,
            "attempts": list(self.attempts),
            "is_json": self.is_json,
            "delivered": self.delivered,
        }

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> Self | None:
        """Return the delivery that another process tells of, None where it tells of none.

        Args:
            facts: what it tells, as `facts` returned it there.
        """
        attempts = facts.get("attempts")
        names = [facts.get("application_id"), facts.get("event_type")]
        if (
            not isinstance(attempts, list)
            or not all(isinstance(one, int | str) for one in attempts)
            or not all(one is None or isinstance(one, str) for one in names)
        ):
            return None
        return cls(
            application_id=names[0],
            event_type=names[1],
            attempts=tuple(attempts),
            is_json=bool(facts.get("is_json")),
        )


def json_of(body: bytes) -> tuple[Any] | None:
    """Return the one value of a JSON text, None if it is none."""
    try:
        return (msgspec.json.decode(body),)
    except ValueError:
        return None


def seconds_of(text: str | None) -> float | None:
    """Return the seconds of a Retry-After header, None where it tells none."""
    text = (text or "").strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return float(text) if is_number else None
