"""Connections whose event loop has ended, or that a forked child has inherited."""

import asyncio
import gc
import ssl
import sys
import warnings
from pathlib import Path

import pytest
import trustme

from income_client import ClientClosedError, IncomeClient, OAuth2ClientCredentials
from tests.support.beside import beside, until
from tests.support.clients import BASIC
from tests.support.connections import answer_to, tls_pair
from tests.support.server import ScriptedServer

ROOT = Path(__file__).parents[2]
ELSEWHERE = "belongs to the event loop in which it was first used"


async def make_calls(client: IncomeClient) -> None:
    """Make some calls at once, so that there are several connections."""
    await asyncio.gather(*[client.get_application(f"app-{n}") for n in range(3)])


@pytest.mark.parametrize("ending", ["in order", "closed only"])
@pytest.mark.parametrize("is_tls", [False, True])
def test_a_client_whose_loop_has_ended_can_be_closed(
    is_tls: bool, ending: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its connections are closed, with no warning that they were not."""
    tls, trust = tls_pair() if is_tls else (None, {})
    auth = OAuth2ClientCredentials("partner", "invented")
    with (
        beside(ScriptedServer(answer_to, tls)) as server,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        client = IncomeClient(server.url, auth=auth, **trust)
        if ending == "in order":
            asyncio.run(make_calls(client))
        else:
            loop = asyncio.new_event_loop()
            loop.run_until_complete(make_calls(client))
            loop.close()
        for _ in range(2):
            asyncio.run(client.aclose())
        until(lambda: not server.connections)
        with pytest.raises(ClientClosedError, match="the client was closed"):
            asyncio.run(client.get_application("app-9"))
        del client
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    assert capfd.readouterr().err == ""


def test_a_client_whose_loop_runs_elsewhere_is_not_closed() -> None:
    """Not from another thread: its connections are in use there."""

    async def stay(client: IncomeClient) -> None:
        await make_calls(client)
        with pytest.raises(ClientClosedError, match=ELSEWHERE):
            await asyncio.to_thread(asyncio.run, client.aclose())
        await make_calls(client)
        await client.aclose()

    with beside(ScriptedServer(answer_to)) as server:
        asyncio.run(stay(IncomeClient(server.url, auth=BASIC)))


@pytest.mark.parametrize("loop", ["same", "new", "running"])
@pytest.mark.parametrize("is_tls", [False, True])
async def test_a_forked_child_leaves_the_connection_to_its_parent(
    is_tls: bool, loop: str, tmp_path: Path
) -> None:
    """It can neither send over it nor close it."""
    tls, authority = None, tmp_path / "authority.pem"
    if is_tls:
        issuer = trustme.CA()
        issuer.cert_pem.write_to_path(authority)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        issuer.issue_cert("127.0.0.1").configure_cert(tls)
    async with ScriptedServer(answer_to, tls) as server:
        script = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-m", "tests.support.forking"),
            *(server.url, str(authority) if is_tls else "", loop),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, complaints = await script.communicate()
    assert complaints.decode() == ""
    assert said.decode() == (
        "the client was used before this process was forked; make one after the fork"
    )
    over = [(request.name, request.connection) for request in server.requests]
    assert over == [("before", 0), ("after", 0)]
