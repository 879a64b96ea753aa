"""What a check-up finds out and what it says of it; knows neither how nor where it is shown."""

import enum
from collections.abc import Mapping

from attrs import field, frozen

from .list_facts import ListFacts
from .times import Reading


class Verdict(enum.Enum):
    """What a finding means for whoever uses the service."""

    OK = "ok"
    """As it should be."""
    NOTE = "note"
    """Worth knowing, and nothing to do."""
    WARNING = "warning"
    """It works, and something should be done."""
    FAILED = "failed"
    """It does not work."""
    SKIPPED = "skipped"
    """Not looked at."""


@frozen(kw_only=True)
class Finding:
    """One line of the report."""

    check: str
    """What was looked at."""
    verdict: Verdict
    """What it means."""
    finding: str
    """What was found."""
    advice: str = ""
    """What to do; empty for nothing."""
    cause: str | None = None
    """The check that stands in its way, where it was skipped for that."""


@frozen(kw_only=True)
class Trouble:
    """Why something was not found out."""

    kind: str
    """Class of the error, or a word of our own."""
    text: str
    """The error in words, without addresses and values."""
    request_id: str | None = None
    """The service's own id of the request, for its support desk."""


@frozen(kw_only=True)
class Configuration:
    """What the client is made of, without its secrets."""

    service: str
    """Scheme, host and path of the service."""
    token_endpoint: str | None
    """Host and port of the token endpoint, where it is another."""
    proxy: str | None = None
    """Host and port of the proxy that all goes through."""
    is_oauth2: bool
    """Whether tokens are bought, else the credentials are Basic."""
    name: str
    """Client id or user name, cut short."""
    sources: Mapping[str, str]
    """For each key the variable or the file that says it."""


@frozen(kw_only=True)
class Certificate:
    """What a server showed."""

    subject: str
    """Whom it names."""
    issuer: str
    """Who signed it."""
    seconds_left: float
    """Until it ends."""


@frozen(kw_only=True)
class Connected:
    """A connection that was opened."""

    address: str
    """IP address at its other end."""
    seconds: float
    """That it took, TLS included."""
    tls: str | None
    """Version of TLS, None for none."""
    certificate: Certificate | None
    """Of the server, None without TLS."""


@frozen(kw_only=True)
class Spoken:
    """What the server answered to requests that ask for nothing."""

    answers: int
    """That came over the one connection."""
    asked: int
    """Requests that were sent at the most."""
    dates: tuple[Reading, ...]
    """Date headers."""


@frozen(kw_only=True)
class HostFacts:
    """What was found out about one server."""

    role: str
    """What it is to the client: ``service`` or ``token endpoint``."""
    name: str
    """Its host."""
    addresses: tuple[str, ...] | Trouble
    """What its name stands for."""
    is_literal: bool
    """Whether the name is an address already."""
    connected: Connected | Trouble | None = None
    """None where there was nothing to connect to."""
    spoken: Spoken | Trouble | None = None
    """None where there was no connection, or nothing to ask."""


@frozen(kw_only=True)
class TokenFacts:
    """A token that was bought."""

    lifetime: float
    """Seconds that it was given for."""


@frozen(kw_only=True)
class Calls:
    """The small calls of the check-up."""

    seconds: tuple[float, ...] = ()
    """How long each took, the first one left out, which opens the connection."""
    made: int = 0
    """How many there were, those that failed and large ones included."""
    throttled: int = 0
    """Replies with 429."""
    retry_after: float | None = None
    """Longest pause that was asked for, in seconds."""


@frozen(kw_only=True)
class Facts:
    """All that a check-up found out; None for what was not looked at."""

    configuration: Configuration | Trouble
    """What the client is made of."""
    proxies: tuple[str, ...] = ()
    """Variables that name a proxy, and that the client does not use."""
    hosts: tuple[HostFacts, ...] = ()
    """The servers, the service's own first."""
    token: TokenFacts | None = None
    """The token, where one was bought."""
    accepted: Trouble | bool | None = None
    """True where a call was answered, else why not."""
    calls: Calls = field(factory=Calls)
    """The calls that were made."""
    lists: ListFacts | None = None
    """What the list does."""
