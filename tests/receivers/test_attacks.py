"""Who is not the service is refused, by the right status, and nothing of him is kept."""

import json
import logging

import pytest

from tests.support.callback_attacks import (
    ATTACKS,
    BASIC,
    BODY,
    JSON,
    SECRETS,
    Attack,
    good_token,
)
from tests.support.callback_certificates import Papers
from tests.support.callback_doors import Server, client_context, receivers, served, server_context
from tests.support.callback_requests import Heard
from tests.support.callback_servers import ring
from tests.support.signed_tokens import AUDIENCE, token


@pytest.mark.parametrize("server", ["aiohttp", "uvicorn"])
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_the_attack_is_refused(
    server: Server, attack: Attack, papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    """For its own reason, which the answer does not tell; no log shows a secret or a body."""
    caplog.set_level(logging.DEBUG)
    heard = Heard()
    doors = receivers(heard)
    fields = attack.fields() if callable(attack.fields) else attack.fields
    async with served(server, doors, server_context(papers)) as url:
        answer = await ring(
            url,
            attack.body,
            ssl=client_context(papers, attack.certificate),
            path=f"/{attack.door}",
            method=attack.method,
            headers=fields,
            length=attack.length,
        )
    assert answer.status == attack.reason.status
    assert doors[attack.door].status.refused == {attack.reason.slug: 1}
    assert answer.headers["content-type"] == "application/json"
    assert list(json.loads(answer.body)) == ["error"]
    assert heard.callbacks == []
    shown = caplog.text + repr([record.__dict__ for record in caplog.records])
    assert [secret for secret in (*SECRETS, good_token()) if secret in shown] == []


@pytest.mark.parametrize("server", ["aiohttp", "uvicorn"])
@pytest.mark.parametrize(
    ("door", "fields"),
    [
        ("basic", (BASIC, JSON)),
        ("basic", (BASIC,)),
        ("tokens", (("authorization", f"bearer {token('RS256', header={'kid': None})}"), JSON)),
        ("tokens", (("Authorization", f"Bearer {good_token()}"), JSON)),
        ("tokens", (("Authorization", f"Bearer {good_token(aud=['a', AUDIENCE])}"), JSON)),
        ("proxied", (BASIC, JSON, ("X-Forwarded-For", "203.0.113.9, 198.51.100.7"))),
        ("certificate", (BASIC, JSON)),
        ("forwarded", (BASIC, JSON)),
        ("all", (BASIC, JSON)),
        ("all", (("Authorization", f"Bearer {good_token()}"), JSON)),
    ],
)
async def test_the_service_passes(
    server: Server, door: str, fields: tuple[tuple[str, str], ...], papers: Papers
) -> None:
    """So none of the attacks fails for a wrong reason."""
    heard = Heard()
    async with served(server, receivers(heard), server_context(papers)) as url:
        context = client_context(papers, "service")
        answer = await ring(url, BODY, ssl=context, path=f"/{door}", headers=fields)
    assert (answer.status, answer.body) == (200, b'{"status":"OK"}')
    assert [callback.application_id for callback in heard.callbacks] == ["app-1"]
