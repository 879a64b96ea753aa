"""What a check-up finds out about a service that is as it should be."""

from typing import Final

from income_client.cli.checking.facts import (
    Calls,
    Certificate,
    Configuration,
    Connected,
    Facts,
    HostFacts,
    Spoken,
    Trouble,
)
from income_client.cli.checking.list_facts import Clamp, Future, Limits, ListFacts
from income_client.cli.checking.times import Reading

DAY: Final = 86_400
TROUBLE: Final = Trouble(kind="ConnectionFailedError", text="the connection was reset")
CONFIGURATION: Final = Configuration(
    service="https://api.example.com",
    token_endpoint=None,
    is_oauth2=True,
    name="abc…",
    sources={"base_url": "INCOME_BASE_URL", "client_id": "~/config.toml"},
)
TLS: Final = Connected(
    address="203.0.113.4",
    seconds=0.012,
    tls="TLSv1.3",
    certificate=Certificate(
        subject="api.example.com", issuer="An Authority", seconds_left=90 * DAY
    ),
)
HOST: Final = HostFacts(
    role="service",
    name="api.example.com",
    addresses=("203.0.113.4", "203.0.113.5"),
    is_literal=False,
    connected=TLS,
    spoken=Spoken(
        answers=3,
        asked=3,
        dates=(Reading(second=1000, sent_at=1000.2, received_at=1000.4),),
    ),
)
LISTS: Final = ListFacts(
    limits=Limits(default_rows=25, large=1000, small_limit=5, small=5, hidden=None, repeats=True),
    default_span=1000,
    starts_at_the_beginning=True,
    clamp=Clamp.NONE,
    future=Future.ACCEPTED,
    update_seconds=(1, 2, 3, 4, 5, 6),
    presents=(Reading(second=1000, sent_at=1000.2, received_at=1000.4),),
)
FINE: Final = Facts(
    configuration=CONFIGURATION,
    hosts=(HOST,),
    accepted=True,
    calls=Calls(seconds=(0.01, 0.02, 0.03), made=28),
    lists=LISTS,
)
"""A service that is as it should be, but for rows that were not looked for."""
