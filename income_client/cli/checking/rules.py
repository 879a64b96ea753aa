"""Verdicts about the way to the service and who asks there, from facts; looks at nothing itself."""

from collections.abc import Callable, Mapping
from typing import Final

from attrs import frozen

from income_client.cli.output import counted

from .facts import Configuration, Facts, HostFacts, Trouble, Verdict
from .times import offset_of

CONFIGURATION: Final = "configuration"
CREDENTIALS: Final = "credentials"
DNS: Final = "DNS"
CONNECTION: Final = "connection"
CLOCK: Final = "clock"

_DAY: Final = 86_400
_URGENT_DAYS: Final = 7
_SOON_DAYS: Final = 21
EQUAL_CLOCKS: Final = 2.0
"""Seconds between two clocks that nobody has to think of."""
_CLOSE_CLOCKS: Final = 30.0
_QUICK: Final = 0.5
_SLOW: Final = 2.0


@frozen
class Said:
    """What a rule says of the facts."""

    verdict: Verdict
    """What they mean."""
    finding: str
    """What was found."""
    advice: str = ""
    """What to do."""


@frozen(kw_only=True)
class Rule:
    """Says one thing of the facts, once what it builds on holds."""

    check: str
    """What it is about."""
    judge: Callable[[Facts], Said]
    """Says it."""
    needs: tuple[str, ...] = ()
    """Checks without which there is nothing to say."""


def host_rules(host: HostFacts) -> tuple[Rule, ...]:
    """Return the rules about one server."""
    place = "" if host.role == "service" else f" ({host.role})"
    dns, connection = DNS + place, CONNECTION + place
    return (
        Rule(check=dns, judge=lambda _: _dns(host), needs=(CONFIGURATION,)),
        Rule(check=connection, judge=lambda _: _connection(host), needs=(dns,)),
        Rule(check=f"certificate{place}", judge=lambda _: _certificate(host), needs=(connection,)),
    )


def configuration(facts: Facts) -> Said:
    """Say what the client is made of, and who says so."""
    found = facts.configuration
    if isinstance(found, Trouble):
        return Said(Verdict.FAILED, found.text, _CONFIGURE)
    kind = "OAuth 2.0 as" if found.is_oauth2 else "Basic as"
    tokens = "" if found.token_endpoint is None else f", tokens of {found.token_endpoint}"
    return Said(Verdict.OK, f"{found.service}{tokens}, {kind} {found.name}; {_told(found.sources)}")


_CONFIGURE: Final = (
    "name a file with --config, or set INCOME_BASE_URL, and INCOME_CLIENT_ID and "
    "INCOME_CLIENT_SECRET or INCOME_USERNAME and INCOME_PASSWORD"
)


def _told(sources: Mapping[str, str]) -> str:
    """Say which variables are set, and which keys other places give."""
    by_source: dict[str, list[str]] = {}
    for key, source in sources.items():
        # The name of a variable says what it is about.
        is_variable = source == f"INCOME_{key.upper()}"
        by_source.setdefault("the environment" if is_variable else source, []).append(
            source if is_variable else key
        )
    return "; ".join(f"{', '.join(keys)} from {source}" for source, keys in by_source.items())


def proxies(facts: Facts) -> Said:
    """Say whether somebody may believe that a proxy is used."""
    found = facts.configuration
    if isinstance(found, Configuration) and found.proxy is not None:
        unused = f"; {' and '.join(facts.proxies)} not used" if facts.proxies else ""
        return Said(Verdict.OK, f"{found.proxy} is used{unused}")
    if not facts.proxies:
        return Said(Verdict.OK, "none is set, none is used")
    return Said(
        Verdict.NOTE,
        f"{' and '.join(facts.proxies)} set, and not used",
        "where a proxy is the only way out, set INCOME_PROXY, or IncomeClient(proxy=...) in code",
    )


def beyond_proxy(_: Facts) -> Said:
    """Say what a proxy keeps from being looked at."""
    return Said(
        Verdict.SKIPPED,
        "through the proxy: DNS, TLS, certificate, keep-alive and clock of the service are not "
        "looked at",
    )


def _dns(host: HostFacts) -> Said:
    if isinstance(host.addresses, Trouble):
        return Said(
            Verdict.FAILED,
            f"{host.name}: {host.addresses.text}",
            "is the name right, and does this machine have a name server?",
        )
    if host.is_literal:
        return Said(Verdict.OK, f"{host.name} is an address, nothing to look up")
    first, more = host.addresses[0], len(host.addresses) - 1
    return Said(Verdict.OK, f"{host.name} is {first}{f' and {more} more' if more else ''}")


_CONNECTION_ADVICE: Final[Mapping[str, str]] = {
    "certificate": "if a company's proxy stands between, INCOME_CA_FILE can name its authority; "
    "else the certificate is for the service's owner to put right, or this clock is wrong",
    "tls": "does the port speak https, and TLS 1.2 or later?",
    "slow": "a firewall may swallow it: is this host and port let out, and is your address let in?",
    "ConnectionRefusedError": "nothing listens there: are host and port right?",
}


def _connection(host: HostFacts) -> Said:
    match host.connected:
        case Trouble() as trouble:
            advice = _CONNECTION_ADVICE.get(trouble.kind, "is the network there, and the way out?")
            return Said(Verdict.FAILED, trouble.text, advice)
        case None:
            return Said(Verdict.SKIPPED, "not tried")
        case connected:
            over = connected.tls or "plain http, as only to this machine"
            return Said(
                Verdict.OK, f"{connected.address} in {_milliseconds(connected.seconds)}, {over}"
            )


def _certificate(host: HostFacts) -> Said:
    if host.connected is None or isinstance(host.connected, Trouble):
        return Said(Verdict.SKIPPED, "not seen")
    certificate = host.connected.certificate
    if certificate is None:
        return Said(Verdict.SKIPPED, "none without TLS")
    days = int(certificate.seconds_left // _DAY)
    text = f"{certificate.subject}, by {certificate.issuer}, {days} days left"
    if days >= _SOON_DAYS:
        return Said(Verdict.OK, text)
    is_urgent = days < _URGENT_DAYS
    return Said(
        Verdict.WARNING if is_urgent else Verdict.NOTE,
        text,
        "ask the service's owner for a new one" if is_urgent else "",
    )


def keeping(facts: Facts) -> Said:
    """Say whether a connection serves more than one request."""
    spoken = facts.hosts[0].spoken
    if spoken is None or isinstance(spoken, Trouble):
        text = "not tried" if spoken is None else spoken.text
        return Said(Verdict.WARNING, text, "something between may close connections")
    text = f"{spoken.answers} of {spoken.asked} requests answered on one connection"
    if spoken.answers == spoken.asked:
        return Said(Verdict.OK, text)
    return Said(Verdict.NOTE, text, "each call may pay for a connection of its own")


def clock(facts: Facts) -> Said:
    """Compare this machine's clock with the service's Date header."""
    spoken = facts.hosts[0].spoken
    dates = () if spoken is None or isinstance(spoken, Trouble) else spoken.dates
    if not dates:
        return Said(Verdict.SKIPPED, "the service sends no Date")
    offset = offset_of(dates)
    if offset is None:
        return Said(Verdict.WARNING, "the Dates of several replies contradict each other")
    text = f"the service's is {offset}"
    apart = max(0.0, abs(offset.seconds) - offset.error)
    if apart <= EQUAL_CLOCKS:
        return Said(Verdict.OK, text)
    if apart <= _CLOSE_CLOCKS:
        return Said(Verdict.NOTE, text)
    return Said(
        Verdict.WARNING,
        text,
        "have one of them set; no window is lost, but tokens and certificates go by the clock",
    )


_REFUSED: Final[Mapping[str, str]] = {
    "PermissionDeniedError": "the credentials are good and not for this: ask the service's owner "
    "what the account may read, and from which addresses",
    "RateLimitedError": "come back later; another process may use the same credentials",
    "TokenError": "the token endpoint is not well: is INCOME_AUTH_URL right?",
    "UnexpectedResponseError": "something else than the service may answer: is the address right?",
    "DecodeError": "the service answers, and not as the contract says: tell its owner",
    "InvalidRequestError": "the service refuses the request itself: tell its owner",
    "NotFoundError": "no list at this address: does base_url have a path too many or too few?",
    "ServerError": "the service is not well: try again later, then tell its owner",
}


_FAILED: Final = "try again; the connection itself was good before"
_PROXY_FAILED: Final = "is the proxy's address right, and does it let the service be reached?"


def credentials(facts: Facts) -> Said:
    """Say whether the service takes the credentials."""
    configured = facts.configuration
    is_oauth2 = isinstance(configured, Configuration) and configured.is_oauth2
    trouble = facts.accepted
    if isinstance(trouble, Trouble):
        advice = _REFUSED.get(trouble.kind, _FAILED)
        if isinstance(configured, Configuration) and configured.proxy is not None:
            advice = _REFUSED.get(trouble.kind, _PROXY_FAILED)
        if trouble.kind == "AuthenticationError":
            advice = _unauthenticated(is_oauth2=is_oauth2, has_token=facts.token is not None)
        number = "" if trouble.request_id is None else f" (request id {trouble.request_id})"
        return Said(Verdict.FAILED, trouble.text + number, advice)
    if trouble is None:
        return Said(Verdict.SKIPPED, "not tried")
    if facts.token is None:
        text = "a token was bought, and taken" if is_oauth2 else "user name and password are taken"
        return Said(Verdict.OK, text)
    return Said(Verdict.OK, f"a token was bought, and taken; it lives {facts.token.lifetime:g} s")


def _unauthenticated(*, is_oauth2: bool, has_token: bool) -> str:
    if not is_oauth2:
        return "are user name and password right, and of this environment (staging, production)?"
    if has_token:
        return "a token was sold and then refused: is INCOME_AUTH_URL of the same environment?"
    return "are client id and secret right, and of this environment (staging, production)?"


def latency(facts: Facts) -> Said:
    """Say how long small calls take."""
    seconds = sorted(facts.calls.seconds)
    if not seconds:
        return Said(Verdict.SKIPPED, "no call came to its end")
    middle = seconds[len(seconds) // 2]
    text = (
        f"median {_milliseconds(middle)}, worst {_milliseconds(seconds[-1])}, "
        f"of {len(seconds)} small calls one at a time"
    )
    if middle < _QUICK:
        return Said(Verdict.OK, text)
    is_slow = middle >= _SLOW
    return Said(
        Verdict.WARNING if is_slow else Verdict.NOTE,
        text,
        "have more calls in flight (concurrency=), nearer to the service if you can",
    )


def throttling(facts: Facts) -> Said:
    """Say whether the service asked for less."""
    calls = facts.calls
    if not calls.throttled:
        return Said(Verdict.OK, f"none seen in {counted(calls.made, 'call')}")
    pause = "" if calls.retry_after is None else f", a pause of {calls.retry_after:g} s asked for"
    return Said(
        Verdict.WARNING,
        f"429 at call {calls.made}{pause}",
        "IncomeClient(max_rate=...) keeps below the limit; the rest was not asked",
    )


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"  # noqa: PLR2004
