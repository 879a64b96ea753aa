"""``income-client doctor``: looks at everything between here and the service, and says what is so.

Its output holds no secret, no borrower's data and no id, so that it can be handed on.
"""

import os
import ssl
from collections.abc import Callable
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

from attrs import evolve

from income_client import (
    BasicAuth,
    ConfigurationError,
    OAuth2ClientCredentials,
)

from .checking.facts import Configuration, Facts, HostFacts, TokenFacts, Trouble
from .checking.listing import examine_list
from .checking.network import SPOKEN, Origin, visit
from .checking.questions import ALL_SECONDS, MOST_CALLS, ONCE, TIMEOUTS, Questions
from .checking.report import findings_of, status_of
from .checking.times import offset_of
from .checking.view import show_findings
from .config import Connection, Ready, authority_of, made_ready
from .options import MisuseError, TableOrJson
from .output import counted, say
from .progress import Stages
from .tokens.keeper import TokenKeeper

_MOST_TOKENS: Final = 2
_MOST: Final = SPOKEN + _MOST_TOKENS + MOST_CALLS + 1
"""Requests at the most: a token that is refused costs another, and its call once more."""
_STEP_SECONDS: Final = 5.0
_PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
"""Variables that name a proxy, in letters of either size."""
_SHOWN: Final = 3


async def doctor(
    *,
    connection: Connection | None = None,
    output: TableOrJson = "table",
) -> int:
    """Look at everything between here and the service, and say what is so.

    A line for each thing that was looked at: the configuration and where each part
    of it comes from, DNS, TLS, the clock, the credentials, how quick the service
    is, and what the contract leaves open about its list: whether the bounds are
    inclusive, the order of rows, what becomes of wide windows. It makes at most 40
    requests, one after the other, and changes nothing.

    No secret, no borrower's data and no id is shown, but that of a failed request,
    by which the service's owner finds it: the output can be pasted into a ticket.
    The exit status is 0 if nothing failed, 2 if the settings cannot be meant, 4 if
    the credentials were refused, else 1.

    Example: income-client doctor --output json

    Args:
        connection: where the account comes from.
        output: a table to read, or JSON.

    Returns:
        The exit status: 1 if something failed, 2 for settings that cannot be meant, 4 if
            the credentials were refused.
    """
    # A person may be asked for a secret, which takes its time.
    found: Ready | MisuseError
    try:
        found = made_ready(connection)
    except MisuseError as error:
        found = error
    with Stages() as stages:
        if isinstance(found, MisuseError):
            facts = Facts(configuration=Trouble(kind="configuration", text=found.message))
        else:
            say(f"at most {_MOST} requests, one after the other, at most {ALL_SECONDS:g} s")
            with stages.stage("Checking", total=MOST_CALLS) as stage:
                facts = await examine(found, lambda made: stage.reach(made, counted(made, "call")))
                stage.reach(MOST_CALLS, counted(facts.calls.made, "call"))
    findings = findings_of(evolve(facts, proxies=_proxies()))
    show_findings(findings, output)
    return status_of(facts, findings)


async def examine(found: Ready, on_call: Callable[[int], object]) -> Facts:
    """Find everything out.

    Args:
        found: where the service is, and who asks.
        on_call: told how many calls were made, before each.
    """
    keeper = TokenKeeper()
    try:
        client = found.client(
            timeouts=TIMEOUTS,
            retry=ONCE,
            token_store=keeper if isinstance(found.auth, OAuth2ClientCredentials) else None,
        )
    except ConfigurationError as error:
        return Facts(configuration=Trouble(kind="configuration", text=error.message))
    async with client:
        ends_at = monotonic() + ALL_SECONDS - (TIMEOUTS.deadline or 0)
        facts = Facts(configuration=_configuration(found))
        if found.configuration.account.proxy is None:
            tls = found.configuration.tls()
            facts = evolve(facts, hosts=await _hosts(found, tls))
        if any(isinstance(each.connected, Trouble | None) for each in facts.hosts):
            return facts
        questions = Questions(client, on_call, seconds=ends_at - monotonic())
        return await _calls(questions, facts, keeper)


async def _hosts(found: Ready, tls: ssl.SSLContext | None) -> tuple[HostFacts, ...]:
    """Look at the service's server and then at that of its tokens, which is asked for nothing."""
    service = Origin.of("service", found.configuration.account.base_url or "")
    hosts = [await visit(service, seconds=_STEP_SECONDS, questions=SPOKEN, tls=tls)]
    if found.configuration.account.auth_url is not None and isinstance(
        found.auth, OAuth2ClientCredentials
    ):
        origin = Origin.of("token endpoint", found.configuration.account.auth_url)
        if origin.authority != service.authority:
            hosts.append(await visit(origin, seconds=_STEP_SECONDS, questions=0, tls=tls))
    return tuple(hosts)


async def _calls(questions: Questions, facts: Facts, keeper: TokenKeeper) -> Facts:
    first = await questions.page()
    token = keeper.token
    if token is not None:
        facts = evolve(facts, token=TokenFacts(lifetime=token.lifetime))
    if isinstance(first, Trouble):
        return evolve(facts, accepted=first, calls=questions.calls)
    spoken = facts.hosts[0].spoken if facts.hosts else None
    dates = () if spoken is None or isinstance(spoken, Trouble) else spoken.dates
    lists = await examine_list(questions, first, offset_of(dates))
    return evolve(facts, accepted=True, calls=questions.calls, lists=lists)


def _configuration(found: Ready) -> Configuration:
    auth = found.auth
    account = found.configuration.account
    return Configuration(
        service=_plain(account.base_url or ""),
        token_endpoint=None if account.auth_url is None else authority_of(account.auth_url),
        proxy=None if account.proxy is None else authority_of(account.proxy.reveal()),
        is_oauth2=isinstance(auth, OAuth2ClientCredentials),
        name=_short(auth.username if isinstance(auth, BasicAuth) else auth.client_id),
        sources=found.configuration.sources,
    )


def _plain(address: str) -> str:
    """Return an address that a client has accepted, which holds no user and no query."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _short(name: str) -> str:
    """Return enough of a name to tell it from others that one has."""
    return f"{name[: min(_SHOWN, len(name) // 2)]}…"


def _proxies() -> tuple[str, ...]:
    return tuple(name for name in _PROXIES if os.environ.get(name) or os.environ.get(name.lower()))
