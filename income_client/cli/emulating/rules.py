"""Options for what the contract leaves open about an emulated service; knows no socket.

Each field of `ServiceRules` has one, in the words of a command line.
"""

from datetime import datetime
from typing import Annotated, Final, Literal

from attrs import field, frozen
from cyclopts import Group, Parameter
from cyclopts.validators import Number

from income_client.cli.options import Switch, WholeSeconds, service_time
from income_client.emulator import FutureBounds, Order, ServiceRules, SpanClamp
from income_client.emulator.times import second_of

from .sizes import byte_count

_GROUP: Final = Group("How the service behaves", sort_key=1)
_CLOSED: Final = {
    "neither": (False, False),
    "after": (True, False),
    "before": (False, True),
    "both": (True, True),
}

SomeSeconds = Annotated[int, Parameter(validator=Number(gte=1))]
Perhaps = Annotated[SomeSeconds | None, Parameter(show_default=False)]
ServiceTime = Annotated[datetime | None, Parameter(show_default=False)]
Size = Annotated[int, Parameter(converter=byte_count, show_default="20kB")]


@Parameter(name="*", group=_GROUP)
@frozen(kw_only=True)
class RuleOptions:
    """How an emulated service behaves where the contract is silent."""

    order: Order = Order.ASCENDING
    """Order of the rows of the list by update time; random is another one for each question."""
    bounds: Literal["neither", "after", "before", "both"] = "neither"
    """Which of updated_after and updated_before the service means with its very second."""
    max_span: Perhaps = None
    """Seconds of the widest window that is served; a wider one is narrowed."""
    span_clamp: SpanClamp = SpanClamp.AFTER
    """The bound that is moved for it."""
    default_span: Annotated[WholeSeconds | None, Parameter(show_default=False)] = None
    """Seconds that an unset updated_after reaches back; to the beginning of time unless given."""
    oldest: ServiceTime = None
    """Updates before this time are kept no longer, in ISO 8601; UTC if it has no zone."""
    future: FutureBounds = FutureBounds.ACCEPT
    """What is done with bounds in the future."""
    visibility_delay: WholeSeconds = 0
    """Seconds until an update shows in the list."""
    clock_offset: Annotated[int, Parameter(allow_leading_hyphen=True)] = 0
    """Seconds that the Date header runs ahead of service time; behind it below 0."""
    token_lifetime: SomeSeconds = 3600
    """Seconds that a token is good for."""
    expiry: SomeSeconds = 900
    """Seconds that the address of a file is good for."""
    url_age: WholeSeconds = 0
    """Seconds of them that have passed when an address is handed out."""
    url_signed_once: Switch = False
    """Never sign an address anew, expired or not."""
    file_size: Size = field(default=20_000)
    """Bytes of each file, such as 500kB or 3MB."""
    file_redirects: WholeSeconds = 0
    """Redirects to another host before a file comes."""

    @property
    def rules(self) -> ServiceRules:
        """The same in the emulator's words."""
        lower_closed, upper_closed = _CLOSED[self.bounds]
        return ServiceRules(
            lower_closed=lower_closed,
            upper_closed=upper_closed,
            order=self.order,
            max_span=self.max_span,
            span_clamp=self.span_clamp,
            oldest=None if self.oldest is None else second_of(service_time(self.oldest)),
            future=self.future,
            default_span=self.default_span,
            visibility_delay=self.visibility_delay,
            clock_offset=self.clock_offset,
            token_lifetime=self.token_lifetime,
            url_lifetime=self.expiry,
            url_age=self.url_age,
            url_signed_once=self.url_signed_once,
            file_bytes=self.file_size,
            file_redirects=self.file_redirects,
        )
