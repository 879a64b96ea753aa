"""uvicorn as a process: mTLS that ends in it, and its protocols where httptools is missing."""

import ssl
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from income_client import BasicAuth
from income_client.emulator import CallbackTarget, Emulator
from tests.support.callback_certificates import SERVICE, Papers
from tests.support.callback_processes import uvicorn_command
from tests.support.callbacks import ring
from tests.support.examples import until, variables
from tests.support.pages import commands
from tests.support.processes import ROOT

(COMMAND,) = (line for line in commands("uvicorn") if "--ssl" in line)
pytest.importorskip("fastapi", reason="the guide's application needs the extra 'full'")

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
    """Return the guide's command line of uvicorn, with this machine's names in it."""
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


@pytest.mark.parametrize("protocol", ["H11Protocol", "HttpToolsProtocol"])
@pytest.mark.parametrize("verification", [ssl.CERT_REQUIRED, ssl.CERT_OPTIONAL])
async def test_certificates(
    papers: Papers, tmp_path: Path, protocol: str, verification: ssl.VerifyMode
) -> None:
    """The service passes; others of its authority are refused, strangers do not connect."""
    (tmp_path / "app.py").write_text(APPLICATION)
    arguments = command(papers, protocol, verification)
    other = papers.client_ca.issue_cert("elsewhere.example")
    async with uvicorn_command(arguments, folder=tmp_path) as url:
        assert await status(url, papers.client(papers.service())) == 200
        assert await status(url, papers.client(other)) == 403
        without = None if verification == ssl.CERT_REQUIRED else 403
        assert await status(url, papers.client()) == without
        for paper in (papers.stranger(), papers.expired()):
            assert await status(url, papers.client(paper)) is None


async def test_without_these_protocols_nobody_passes(papers: Papers, tmp_path: Path) -> None:
    """Uvicorn by itself says nothing of certificates, which is never taken for a good one."""
    (tmp_path / "app.py").write_text(APPLICATION)
    option, protocol, *rest = command(papers, "H11Protocol", ssl.CERT_REQUIRED)[3:]
    assert (option, protocol) == ("--http", "income_client.receivers.uvicorn:H11Protocol")
    arguments = ["app:app", "--port", "0", *rest]
    async with uvicorn_command(arguments, folder=tmp_path) as url:
        assert await status(url, papers.client(papers.service())) == 403


def was_read(service: Emulator, application_id: str) -> bool:
    """Say whether an application was asked for."""
    return any(request.path.endswith(f"/{application_id}") for request in service.requests)


async def test_a_callback_to_either_of_two_processes_is_a_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's backend, of which one process polls every five minutes: each update is read."""
    page = (ROOT / "tests/examples/web_backend.py").read_text("utf-8")
    assert "standby=True)" in page
    page = page.replace("standby=True)", "standby=True, interval=300)")
    (tmp_path / "web_backend.py").write_text(page, "utf-8")
    command = ["web_backend:app", "--port", "0"]
    async with Emulator(20) as service:
        monkeypatch.setenv("INCOME_CALLBACK_PASSWORD", "invented")
        for name, value in variables(service).items():
            monkeypatch.setenv(name, value)
        async with (
            uvicorn_command(command, folder=tmp_path) as first,
            uvicorn_command(command, folder=tmp_path) as second,
        ):
            for updated, url in zip(
                service.world.ids, (first, second, first, second), strict=False
            ):
                target = CallbackTarget(f"{url}/callbacks", auth=BasicAuth("service", "invented"))
                delivery = await service.fire_callback(updated, target=target, update=True)
                assert delivery.delivered
                await until(partial(was_read, service, updated))


ADVICE = "HttpToolsProtocol needs httptools: pip install httptools, or take H11Protocol"


@pytest.mark.parametrize(
    ("program", "ends"),
    [
        pytest.param(
            "from income_client.receivers.uvicorn import HttpToolsProtocol", 1, id="import"
        ),
        pytest.param(
            "import uvicorn; uvicorn.Config("
            "'x:y', http='income_client.receivers.uvicorn:HttpToolsProtocol').load()",
            1,
            id="option",
        ),
        pytest.param(
            "from income_client import ConfigurationError\n"
            "try:\n"
            "    from income_client.receivers.uvicorn import HttpToolsProtocol\n"
            "except ImportError as error:\n"
            "    assert isinstance(error, ConfigurationError)\n"
            "else:\n"
            "    raise AssertionError",
            0,
            id="an ImportError as well",
        ),
        pytest.param(
            "import income_client.receivers.uvicorn as it; "
            "assert it.H11Protocol; assert not hasattr(it, 'Nothing')",
            0,
            id="the other one is there",
        ),
    ],
)
def test_without_httptools_it_says_what_to_install(program: str, ends: int) -> None:
    """Whether it is imported or named to uvicorn; the protocol on h11 needs nothing more."""
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['httptools'] = None\n{program}"],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=50,
    )
    assert ended.returncode == ends, ended.stderr
    assert ends == 0 or ended.stderr.splitlines()[-1].endswith(ADVICE)
