"""A callback as its receiver sees it: a hint that something has changed, never its data."""

from datetime import datetime
from typing import Any

from attrs import field, frozen


@frozen(kw_only=True)
class Callback:
    """What the service has sent to the partner's endpoint (contract sections 1 and 6).

    Payloads are not specified. Fields that are assumed are read where they are there;
    everything that comes, or nothing, is kept in ``payload``.
    """

    event_type: str | None = None
    """What happened, such as ``income_calculations``; None where the payload does not say."""
    application_id: str | None = None
    """The application it is about; None where the payload does not say."""
    application_reference_id: str | None = None
    """The partner's own reference of it; None where the payload does not say."""
    payload: Any = field(default=None, repr=False)
    """The whole JSON, None where the body was empty; it may hold personal data.

    Numbers keep all their digits, however many there are: those with a fraction or an exponent
    are `Decimal`, the others int. An exponent can be enormous, so compare a number before you
    convert it: ``int(Decimal("1e999999999"))`` does not end.
    """
    received_at: datetime
    """When it came, by the clock of this machine, in UTC."""
    is_repeat: bool = False
    """Whether the same bytes were handled shortly before: sent again, or an event like it."""
