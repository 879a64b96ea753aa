"""``income-client doctor`` in the test's own process, and services of other habits to look at."""

from datetime import datetime, timedelta
from typing import Any, Final

from attrs import evolve

from income_client import BasicAuth, OAuth2ClientCredentials
from income_client.cli.accounts.account import Account
from income_client.cli.accounts.connecting import Ready
from income_client.cli.checking.facts import Facts, Finding
from income_client.cli.checking.report import findings_of
from income_client.cli.doctor import examine
from income_client.emulator import Emulator
from income_client.emulator.exchange import HttpReply, HttpRequest

_UPDATED: Final = b'"last_updated_at":"'


def account(address: str, auth: BasicAuth | OAuth2ClientCredentials) -> Ready:
    """Return an account that nobody has to be asked for."""
    return Ready(account=Account(base_url=address), auth=auth, sources={})


async def facts_about(service: Emulator) -> Facts:
    """Find everything out about a service."""
    return await examine(account(service.url, service.oauth2), lambda _: None)


def by_check(facts: Facts) -> dict[str, Finding]:
    """Return the findings by what they are about."""
    return {each.check: each for each in findings_of(facts)}


async def findings_about(service: Emulator) -> dict[str, Finding]:
    """Find everything out about a service, and return the findings by what they are about."""
    return by_check(await facts_about(service))


class CappedEmulator(Emulator):
    """A service whose pages are shorter than it was asked for, without a word about it."""

    cap = 30

    def _answer(self, request: HttpRequest) -> HttpReply:
        query = request.query.replace("limit=1000", f"limit={self.cap}")
        return super()._answer(evolve(request, query=query))


class DistantEmulator(Emulator):
    """A service in a zone of its own, whose times in Z are UTC nevertheless.

    Args:
        applications: how many.
        shift: seconds that its zone is ahead of UTC.
        **knobs: as for `Emulator`.
    """

    def __init__(self, applications: int, *, shift: int, **knobs: Any) -> None:
        # Its Date is UTC too.
        super().__init__(applications, clock_offset=-shift, **knobs)
        self._shift = shift

    def _answer(self, request: HttpRequest) -> HttpReply:
        reply = super()._answer(request)
        before, field, rest = reply.body.partition(_UPDATED)
        if not field:
            return reply
        text, quote, after = rest.partition(b'Z"')
        moment = datetime.fromisoformat(text.decode()) - timedelta(seconds=self._shift)
        body = before + field + moment.isoformat().encode() + quote + after
        return evolve(reply, body=body)
