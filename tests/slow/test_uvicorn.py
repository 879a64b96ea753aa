"""uvicorn as a process: mTLS that ends in it, and its protocols where httptools is missing."""

import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.callback_certificates import SERVICE, Papers
from tests.support.callback_processes import uvicorn_command
from tests.support.callbacks import ring
from tests.support.readme import commands

(COMMAND,) = (line for line in commands("uvicorn") if "--ssl" in line)
pytest.importorskip("fastapi", reason="the README's application needs the extra 'full'")

PROTOCOLS = ["H11Protocol", "HttpToolsProtocol"]
ASKING = {
    "an import": "from income_client.receivers.uvicorn import HttpToolsProtocol",
    "uvicorn's option": (
        "import uvicorn; "
        "uvicorn.Config('x:y', http='income_client.receivers.uvicorn:HttpToolsProtocol').load()"
    ),
}
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


@pytest.mark.parametrize("asking", ASKING)
def test_it_says_what_to_install(asking: str) -> None:
    """The protocol on httptools is asked for in vain, and the last line says what to do."""
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['httptools'] = None; {ASKING[asking]}"],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=50,
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith(
        "HttpToolsProtocol needs httptools: pip install httptools, or take H11Protocol"
    )


def test_who_can_do_without_it_need_not_know_this_package_s_errors() -> None:
    """It is an ImportError as well, and still one of the family."""
    script = (
        "import sys; sys.modules['httptools'] = None\n"
        "from income_client import ConfigurationError\n"
        "try:\n"
        "    from income_client.receivers.uvicorn import HttpToolsProtocol\n"
        "except ImportError as error:\n"
        "    assert isinstance(error, ConfigurationError)\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, timeout=50
    )
    assert ended.returncode == 0, ended.stderr


def test_the_other_one_is_there() -> None:
    """The protocol on h11 needs nothing more, and a name that was never there is missing."""
    script = (
        "import sys; sys.modules['httptools'] = None; "
        "import income_client.receivers.uvicorn as it; "
        "assert it.H11Protocol; assert not hasattr(it, 'Nothing')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, timeout=50
    )
    assert ended.returncode == 0, ended.stderr
