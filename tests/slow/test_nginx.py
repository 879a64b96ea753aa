"""mTLS that ends in nginx, with uvicorn behind it: what the guide shows, run for real."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.callback_certificates import SERVICE, Papers, pem_of
from tests.support.callback_processes import free_port, nginx, nginx_program, uvicorn_command
from tests.support.callbacks import ring
from tests.support.pages import EXAMPLES, commands, contents
from tests.support.server import Reply

pytest.importorskip("fastapi", reason="the guide's application needs the extra 'full'")

pytestmark = pytest.mark.skipif(nginx_program() is None, reason="there is no nginx")

(SERVER_BLOCK,) = contents("nginx")
APPLICATION: Final = (EXAMPLES / "callbacks_nginx.py").read_text("utf-8")
(COMMAND,) = (line for line in commands("uvicorn") if "--ssl" not in line)
BEHIND: Final = {
    "tcp": tuple(COMMAND.replace(" 8000", " 0").split()[1:]),
    "unix": ("app:app", "--uds", "app.sock", *COMMAND.split()[6:]),
}
GOOD: Final = "127.0.0.2"
"""Where the service comes from, here."""


def application() -> str:
    """Return the guide's, with the service where it comes from here."""
    assert SERVICE in APPLICATION
    return APPLICATION.replace("198.51.100.0/24", GOOD)


def server_block(papers: Papers, port: int, upstream: str) -> str:
    """Return the guide's, with this machine's names in it."""
    return (
        SERVER_BLOCK.replace("443", f"127.0.0.1:{port}")
        .replace("/etc/callbacks", str(papers.folder))
        .replace("http://127.0.0.1:8000", upstream)
    )


@contextlib.asynccontextmanager
async def served(
    papers: Papers, folder: Path, behind: str, replaced: tuple[str, str] = ("", "")
) -> AsyncIterator[str]:
    """Run both; yields nginx's address."""
    (folder / "app.py").write_text(application())
    port = free_port()
    async with uvicorn_command(BEHIND[behind], folder=folder) as url:
        upstream = url if behind == "tcp" else f"http://unix:{folder}/app.sock"
        block = server_block(papers, port, upstream).replace(*replaced)
        async with nginx(block, port=port, folder=folder) as address:
            yield address


async def status(url: str, client: ssl.SSLContext, source: str = GOOD, *headers: str) -> int:
    """Return the status of the answer to a callback."""
    fields = tuple((name, value) for name, _, value in (field.partition("=") for field in headers))
    return (await ring(url, ssl=client, source=source, headers=fields)).status


@pytest.mark.parametrize("behind", BEHIND)
async def test_the_service_passes_and_nobody_else(
    papers: Papers, tmp_path: Path, behind: str
) -> None:
    """By its certificate and its address; a header of their own helps nobody."""
    service, none = papers.client(papers.service()), papers.client()
    other = papers.client(papers.client_ca.issue_cert("elsewhere.example"))
    one_line = pem_of(papers.service()).replace("\n", "%0A")
    forged = (f"Client-Cert={one_line}", "X-SSL-Client-Verify=SUCCESS")
    async with served(papers, tmp_path, behind) as url:
        assert await status(url, service) == 200
        assert await status(url, other) == 403
        assert await status(url, none) == 403
        assert await status(url, none, GOOD, *forged) == 403
        assert await status(url, other, GOOD, *forged) == 403
        assert await status(url, service, "127.0.0.3") == 403
        assert await status(url, service, "127.0.0.3", f"X-Forwarded-For={GOOD}") == 403
        assert await status(url, service, GOOD, "X-Forwarded-For=203.0.113.9") == 200
        # These are nginx's to refuse: it passes good certificates on only.
        assert await status(url, papers.client(papers.stranger())) == 400
        assert await status(url, papers.client(papers.expired())) == 400


@pytest.mark.parametrize(
    "replaced",
    [
        pytest.param(("$remote_addr", "$proxy_add_x_forwarded_for"), id="appends addresses"),
        pytest.param(("optional;", "optional_no_ca;"), id="lets strangers through"),
    ],
)
async def test_other_settings_of_nginx_let_nobody_in(
    papers: Papers, tmp_path: Path, replaced: tuple[str, str]
) -> None:
    """What is left of the address that it appends counts for nothing, as do unverified papers."""
    service, stranger = papers.client(papers.service()), papers.client(papers.stranger())
    async with served(papers, tmp_path, "tcp", replaced) as url:
        assert await status(url, service, GOOD, "X-Forwarded-For=203.0.113.9") == 200
        assert await status(url, service, "127.0.0.3", f"X-Forwarded-For={GOOD}") == 403
        # Its own refusal, or the application's where it lets strangers through.
        assert await status(url, stranger) == (403 if replaced[0] == "optional;" else 400)


async def test_who_goes_around_nginx_is_no_proxy(papers: Papers, tmp_path: Path) -> None:
    """Its headers are believed of its address alone."""
    (tmp_path / "app.py").write_text(application())
    one_line = pem_of(papers.service()).replace("\n", "%0A")
    fields = (
        ("Client-Cert", one_line),
        ("X-SSL-Client-Verify", "SUCCESS"),
        ("X-Forwarded-For", GOOD),
    )
    async with uvicorn_command(BEHIND["tcp"], folder=tmp_path) as url:
        assert (await ring(url, headers=fields)).status == 200
        assert (await ring(url, headers=fields, source=GOOD)).status == 403
        assert (await ring(url, headers=fields, source="127.0.0.3")).status == 403


async def test_forgotten_options_of_uvicorn_let_nobody_in(papers: Papers, tmp_path: Path) -> None:
    """Without these protocols, the proxy cannot be recognized, so nobody is trusted."""
    (tmp_path / "app.py").write_text(application())
    port = free_port()
    async with uvicorn_command(BEHIND["tcp"][:-2], folder=tmp_path) as upstream:
        block = server_block(papers, port, upstream)
        async with nginx(block, port=port, folder=tmp_path) as url:
            assert await status(url, papers.client(papers.service())) == 403


async def test_while_the_application_is_away_the_answer_is_json(
    papers: Papers, tmp_path: Path
) -> None:
    """With the status upon which the service sends again."""
    port = free_port()
    block = server_block(papers, port, f"http://unix:{tmp_path}/app.sock")
    async with nginx(block, port=port, folder=tmp_path) as url:
        answer: Reply = await ring(url, ssl=papers.client(papers.service()))
    assert (answer.status, answer.body) == (503, b'{"error":"Service Unavailable"}')
    assert (answer.headers["content-type"], answer.headers["retry-after"]) == (
        "application/json",
        "5",
    )
