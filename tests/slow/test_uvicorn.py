"""uvicorn as a process, alone and behind nginx: what the guide shows."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("fastapi", reason="the guide's application needs the extra 'full'")

from income_client import BasicAuth
from income_client.emulator import CallbackTarget, Emulator
from tests.slow.callback_processes import free_port, nginx, nginx_program, uvicorn_command
from tests.slow.examples import asked, variables
from tests.support.callbacks import ring
from tests.support.identities import SERVICE, Papers, pem_of
from tests.support.pages import EXAMPLES, commands, contents
from tests.support.processes import eventually

COMMANDS: Final = commands("uvicorn")
(BEHIND_NGINX,) = COMMANDS
(SERVER_BLOCK,) = contents("nginx")
GOOD: Final = "127.0.0.2"
"""Address of the service in these tests."""
needs_nginx = pytest.mark.skipif(nginx_program() is None, reason="there is no nginx")


async def status(
    url: str, client: ssl.SSLContext | None = None, source: str = "127.0.0.1", *headers: str
) -> int:
    """Return the status of the answer to a callback."""
    fields = tuple((name, value) for name, _, value in (field.partition("=") for field in headers))
    return (await ring(url, ssl=client, source=source, headers=fields)).status


def was_read(service: Emulator, application_id: str) -> bool:
    """Return whether an application was requested."""
    return application_id in asked(service)


async def test_a_callback_to_either_of_two_processes_is_a_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's backend, of which one process polls every five minutes: each update is read."""
    page = (EXAMPLES / "web_backend.py").read_text("utf-8")
    assert "standby=True)" in page
    page = page.replace("standby=True)", "standby=True, interval=300)")
    (tmp_path / "web_backend.py").write_text(page, "utf-8")
    run = partial(uvicorn_command, ["web_backend:app", "--port", "0"], folder=tmp_path)
    async with Emulator(20) as service:
        monkeypatch.setenv("INCOME_CALLBACK_PASSWORD", "invented")
        for name, value in variables(service).items():
            monkeypatch.setenv(name, value)
        async with run() as first, run() as second:
            for updated, url in zip(service.world.ids, (first, second) * 2, strict=False):
                target = CallbackTarget(f"{url}/callbacks", auth=BasicAuth("service", "invented"))
                delivery = await service.fire_callback(updated, target=target, update=True)
                assert delivery.delivered
                await eventually(partial(was_read, service, updated))


# nginx is before it

BEHIND: Final = {
    "tcp": tuple(BEHIND_NGINX.replace(" 8000", " 0").split()[1:]),
    "unix": ("app:app", "--uds", "app.sock", *BEHIND_NGINX.split()[6:]),
}


def application_in(folder: Path) -> None:
    """Write the guide's, with the service where it comes from here."""
    text = (EXAMPLES / "callbacks_nginx.py").read_text("utf-8")
    assert SERVICE in text
    (folder / "app.py").write_text(text.replace("198.51.100.0/24", GOOD))


def server_block(papers: Papers, port: int, upstream: str) -> str:
    """Return the guide's, with this machine's names in it."""
    return (
        SERVER_BLOCK.replace("443", f"127.0.0.1:{port}")
        .replace("/etc/callbacks", str(papers.folder))
        .replace("http://127.0.0.1:8000", upstream)
    )


@contextlib.asynccontextmanager
async def proxied(
    papers: Papers,
    folder: Path,
    arguments: tuple[str, ...] = BEHIND["tcp"],
    replaced: tuple[str, str] = ("", ""),
) -> AsyncIterator[str]:
    """Run both; yields nginx's address."""
    application_in(folder)
    port = free_port()
    async with uvicorn_command(arguments, folder=folder) as url:
        upstream = f"http://unix:{folder}/app.sock" if "--uds" in arguments else url
        block = server_block(papers, port, upstream).replace(*replaced)
        async with nginx(block, port=port, folder=folder) as address:
            yield address


@needs_nginx
@pytest.mark.parametrize("behind", BEHIND)
async def test_the_service_passes_and_nobody_else(
    papers: Papers, tmp_path: Path, behind: str
) -> None:
    """By its certificate and its address; a header of their own helps nobody."""
    service, none = papers.client(papers.service()), papers.client()
    other = papers.client(papers.client_ca.issue_cert("elsewhere.example"))
    one_line = pem_of(papers.service()).replace("\n", "%0A")
    forged = (f"Client-Cert={one_line}", "X-SSL-Client-Verify=SUCCESS")
    async with proxied(papers, tmp_path, BEHIND[behind]) as url:
        assert await status(url, service, GOOD) == 200
        assert await status(url, other, GOOD) == 403
        assert await status(url, none, GOOD) == 403
        assert await status(url, none, GOOD, *forged) == 403
        assert await status(url, other, GOOD, *forged) == 403
        assert await status(url, service, "127.0.0.3") == 403
        assert await status(url, service, "127.0.0.3", f"X-Forwarded-For={GOOD}") == 403
        assert await status(url, service, GOOD, "X-Forwarded-For=203.0.113.9") == 200
        # These are nginx's to refuse: it passes good certificates on only.
        assert await status(url, papers.client(papers.stranger()), GOOD) == 400
        assert await status(url, papers.client(papers.expired()), GOOD) == 400


@needs_nginx
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
    """Addresses left of the one that nginx appends, and unverified certificates, do not count."""
    service, stranger = papers.client(papers.service()), papers.client(papers.stranger())
    async with proxied(papers, tmp_path, replaced=replaced) as url:
        assert await status(url, service, GOOD, "X-Forwarded-For=203.0.113.9") == 200
        assert await status(url, service, "127.0.0.3", f"X-Forwarded-For={GOOD}") == 403
        # Its own refusal, or the application's where it lets strangers through.
        assert await status(url, stranger, GOOD) == (403 if replaced[0] == "optional;" else 400)


async def test_who_goes_around_nginx_is_no_proxy(papers: Papers, tmp_path: Path) -> None:
    """The headers of proxies count only from the proxy's address."""
    application_in(tmp_path)
    one_line = pem_of(papers.service()).replace("\n", "%0A")
    forged = (f"Client-Cert={one_line}", "X-SSL-Client-Verify=SUCCESS", f"X-Forwarded-For={GOOD}")
    async with uvicorn_command(BEHIND["tcp"], folder=tmp_path) as url:
        for source, expected in (("127.0.0.1", 200), (GOOD, 403), ("127.0.0.3", 403)):
            assert await status(url, None, source, *forged) == expected


@needs_nginx
async def test_forgotten_options_of_uvicorn_let_nobody_in(papers: Papers, tmp_path: Path) -> None:
    """Without the package's protocol, the proxy cannot be recognized, so nobody is trusted."""
    async with proxied(papers, tmp_path, BEHIND["tcp"][:-2]) as url:
        assert await status(url, papers.client(papers.service()), GOOD) == 403


@needs_nginx
async def test_while_the_application_is_away_the_answer_is_json(
    papers: Papers, tmp_path: Path
) -> None:
    """With the status upon which the service sends again."""
    port = free_port()
    block = server_block(papers, port, f"http://unix:{tmp_path}/app.sock")
    async with nginx(block, port=port, folder=tmp_path) as url:
        answer = await ring(url, ssl=papers.client(papers.service()))
    assert (answer.status, answer.body) == (503, b'{"error":"Service Unavailable"}')
    assert (answer.headers["content-type"], answer.headers["retry-after"]) == (
        "application/json",
        "5",
    )
