"""The page of an emulator: what is sent, to whom, and what leads a client from it."""

import re
from typing import Final

import aiohttp
import pytest

from income_client import IncomeClient
from income_client.emulator import Emulator
from income_client.settings import Secret
from tests.support.emulated import LIST, get_status

FILES: Final = {"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript"}


async def test_the_page_loads_nothing_from_elsewhere(
    service: Emulator, session: aiohttp.ClientSession
) -> None:
    """Its three files are all that there is; no policy lets in more, a frame or a script in it."""
    for path, kind in FILES.items():
        async with session.get(service.url + path) as answer:
            assert (answer.status, answer.content_type) == (200, kind)
            policy = answer.headers["Content-Security-Policy"]
            text = await answer.text()
        rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
        assert rules.pop("require-trusted-types-for") == "'script'"
        assert rules.pop("default-src") == rules["frame-ancestors"] == "'none'"
        assert set(rules.values()) == {"'self'", "'none'", "data:"}
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert not re.search(r"https?://|innerHTML|<script>|style=|\son\w+=", text)
        assert {*re.findall(r'(?:href|src)="([^"]+)"', text)} <= {*FILES, "data:,"}
    async with session.post(service.url) as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET")


async def test_the_page_comes_whatever_else_fails(session: aiohttp.ClientSession) -> None:
    """No fault falls on it, no token is needed for it, no journal has it; other hosts get none."""
    async with Emulator(3, latency=3600, control_token=Secret("invented-token")) as service:
        service.faults.add("503 rate=100%")
        for path in FILES:
            async with session.get(service.url + path) as answer:
                assert answer.status == 200
            async with session.get(service.url + path, headers={"Host": "evil.example"}) as answer:
                assert answer.status == 421
        assert service.journal.last == 0
        assert service.faults.played.total() == 0


async def test_it_names_the_variables_that_lead_a_client_here(
    service: Emulator, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With them a client reads it; a page of another origin, or another host, does not get them."""
    address = f"{service.url}/emulator/environment"
    async with session.get(address) as answer:
        variables = await answer.json()
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    async with IncomeClient.from_env() as client:
        assert len([row async for row in client.list_applications()]) == 50
    for headers, status in (
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
    ):
        async with session.get(address, headers=headers) as answer:
            assert answer.status == status
            assert "secret" not in await answer.text()
    assert await get_status(session, service, LIST) == 200
