"""A callback as its receiver sees it: a hint that something has changed, never its data."""

from datetime import datetime
from typing import Any

from attrs import field, frozen


@frozen(kw_only=True)
class Callback:
    """A message that the service sent to the partner's endpoint (contract sections 1 and 6).

    The contract does not specify payloads. Fields with the assumed names are read if present;
    the complete payload is kept in ``payload``.

    Attributes:
        event_type: kind of event, such as ``income_calculations``; None if the payload does not
            say.
        application_id: id of the application that the event is about; None if the payload does not
            say.
        application_reference_id: the partner's own reference of the application; None if the
            payload does not say.
        payload: the complete JSON, None if the body was empty; it may contain personal data.
            Numbers keep all their digits: numbers with a fraction or an exponent are `Decimal`,
            others int. An exponent can be enormous, so compare a number before you convert it:
            ``int(Decimal("1e999999999"))`` does not end.
        received_at: time at which the callback arrived, by the clock of this machine, in UTC.
        is_repeat: whether a callback with the same bytes was handled shortly before. Such a
            callback was sent again, or reports another event of the same kind.
    """

    event_type: str | None = None
    application_id: str | None = None
    application_reference_id: str | None = None
    payload: Any = field(default=None, repr=False)
    received_at: datetime
    is_repeat: bool = False
