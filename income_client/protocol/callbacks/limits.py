"""How much a receiver takes, and how long; frozen and validated."""

from typing import Any, Literal

from attrs import Attribute, field, frozen

from income_client.errors import ConfigurationError
from income_client.settings import counting, not_negative, positive


def _run_or_skip(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    if value not in ("run", "skip"):
        raise ConfigurationError(f"{attribute.name} is 'run' or 'skip'")


@frozen(kw_only=True)
class ReceiverLimits:
    """How much a receiver takes, and how long.

    Raises:
        ConfigurationError: a figure is out of its range.
    """

    concurrency: int = field(validator=counting)
    """Callbacks that are handled at a time."""
    queue: int = field(validator=counting)
    """Callbacks that may wait for their turn."""
    timeout: float = field(validator=positive)
    """Seconds that a callback may take, the waiting included."""
    retry_after: float = field(validator=positive)
    """Seconds after which the service may send a callback again that was not taken."""
    max_body_bytes: int = field(validator=counting)
    """Longest body."""
    body_timeout: float = field(validator=positive)
    """Seconds that a body may take to come."""
    repeat_window: float = field(validator=not_negative)
    """Seconds for which a handled callback is remembered."""
    on_repeat: Literal["run", "skip"] = field(validator=_run_or_skip)
    """What becomes of a callback that is remembered."""
