"""mTLS that ends in uvicorn: its real command line, and what its protocols tell."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from income_client.receivers.asgi import Receiver
from income_client.receivers.tls import callback_ssl_context
from income_client.receivers.uvicorn import H11Protocol, HttpToolsProtocol
from tests.support.callback_certificates import SERVICE, Papers, der_of
from tests.support.callback_endpoints import Telling
from tests.support.callback_processes import uvicorn_command
from tests.support.callback_servers import connected, heard, ring, served_by_uvicorn
from tests.support.readme import commands

(COMMAND,) = (line for line in commands("uvicorn") if "--ssl" in line)
PROTOCOLS = ["H11Protocol", "HttpToolsProtocol"]
APPLICATION = f"""
from fastapi import FastAPI
from starlette.routing import Route

from income_client import CallbackClientCertificate
from income_client.receivers import CallbackReceiver
from income_client.receivers.asgi import Receiver

receiver = CallbackReceiver(lambda callback: None, auth=CallbackClientCertificate(san="{SERVICE}"))
app = FastAPI(routes=[Route("/callbacks", Receiver(receiver))])
"""


def command(papers: Papers, protocol: str, verification: ssl.VerifyMode) -> list[str]:
    """Return the README's command line of uvicorn, with this machine's names in it."""
    line = COMMAND
    replaced = {
        "8443": "0",
        "H11Protocol": protocol,
        "server.pem": str(papers.files["certificate"]),
        "server.key": str(papers.files["key"]),
        "client_ca.pem": str(papers.files["client_ca"]),
        "reqs 2": f"reqs {int(verification)}",
    }
    for shown, here in replaced.items():
        assert shown in line
        line = line.replace(shown, here)
    return line.split()[1:]


async def status(url: str, client: ssl.SSLContext) -> int | None:
    """Return the status of the answer to a callback, None where the handshake fails."""
    try:
        return (await ring(url, ssl=client)).status
    except (ssl.SSLError, EOFError, ConnectionError):
        return None


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_required_certificates(papers: Papers, tmp_path: Path, protocol: str) -> None:
    """The service passes; others of its authority are refused, strangers do not connect."""
    (tmp_path / "app.py").write_text(APPLICATION)
    arguments = command(papers, protocol, ssl.CERT_REQUIRED)
    other = papers.client_ca.issue_cert("elsewhere.example")
    async with uvicorn_command(arguments, folder=tmp_path) as url:
        assert await status(url, papers.client(papers.service())) == 200
        assert await status(url, papers.client(other)) == 403
        for paper in (None, papers.stranger(), papers.expired()):
            assert await status(url, papers.client(paper)) is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_optional_certificates(papers: Papers, tmp_path: Path, protocol: str) -> None:
    """Who has none may connect, and is refused by the endpoint."""
    (tmp_path / "app.py").write_text(APPLICATION)
    arguments = command(papers, protocol, ssl.CERT_OPTIONAL)
    async with uvicorn_command(arguments, folder=tmp_path) as url:
        assert await status(url, papers.client(papers.service())) == 200
        assert await status(url, papers.client()) == 403
        assert await status(url, papers.client(papers.stranger())) is None


async def test_without_these_protocols_nobody_passes(papers: Papers, tmp_path: Path) -> None:
    """Uvicorn by itself tells nothing of certificates, which is never taken for a good one."""
    (tmp_path / "app.py").write_text(APPLICATION)
    option, protocol, *rest = command(papers, "H11Protocol", ssl.CERT_REQUIRED)[3:]
    assert (option, protocol) == ("--http", "income_client.receivers.uvicorn:H11Protocol")
    arguments = ["app:app", "--port", "0", *rest]
    async with uvicorn_command(arguments, folder=tmp_path) as url:
        assert await status(url, papers.client(papers.service())) == 403


@pytest.mark.parametrize("http", [H11Protocol, HttpToolsProtocol])
async def test_what_is_told_is_the_extension_of_asgi(papers: Papers, http: Any) -> None:
    """With the certificate in PEM, beside what else the scope has."""
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(dict(scope))
        await Receiver(Telling())(scope, receive, send)

    context = callback_ssl_context(**papers.files, client_certificates="optional")
    paper = papers.service()
    async with served_by_uvicorn(app, context, http=http) as url:
        await ring(url, ssl=papers.client(paper))
        await ring(url, ssl=papers.client())
    with_one, without = (scope["extensions"]["tls"] for scope in scopes)
    assert with_one["client_cert_chain"] == [ssl.DER_cert_to_PEM_cert(der_of(paper))]
    assert without["client_cert_chain"] == []
    assert with_one["client_cert_error"] is None
    assert with_one["tls_version"] == 0x0304
    async with served_by_uvicorn(app, http=http) as url:
        await ring(url)
    assert "tls" not in scopes[-1]["extensions"]


@pytest.mark.parametrize("http", [H11Protocol, HttpToolsProtocol])
async def test_a_certificate_that_nobody_verifies_is_not_told(papers: Papers, http: Any) -> None:
    """Where TLS asks for none, there is none."""
    endpoint = Telling()
    context = callback_ssl_context(**papers.files | {"client_ca": None})
    async with served_by_uvicorn(Receiver(endpoint), context, http=http) as url:
        await ring(url, ssl=papers.client(papers.stranger()))
    assert endpoint.heads[0].certificate is None


@pytest.mark.parametrize("http", [H11Protocol, HttpToolsProtocol])
async def test_trailers_are_no_headers(http: Any) -> None:
    """What comes behind the body was written by anybody, and may have passed a proxy."""
    endpoint = Telling()
    async with (
        served_by_uvicorn(Receiver(endpoint), http=http) as url,
        connected(url) as (reader, writer),
    ):
        for _ in range(2):
            writer.write(
                b"POST /callbacks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"2\r\n{}\r\n0\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n"
            )
            assert (await heard(reader)).status == 200
    for head in endpoint.heads:
        assert head.values(b"x-forwarded-for") == ()
        assert head.values(b"host") == (b"x",)
    assert len(endpoint.heads) == 2
