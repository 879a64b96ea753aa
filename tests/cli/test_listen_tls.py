"""``income-client listen`` over TLS, and an ``emulate`` that calls it with a client certificate."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import trustme
from attrs import frozen

from income_client.emulator import Emulator
from tests.cli.listening import OAUTH2, OAUTH2_VARIABLES, listening
from tests.cli.triggering import emulating

_CALLER: Final = "callbacks.income.invalid"


@frozen
class Papers:
    """An authority, and files as the options name them."""

    authority: trustme.CA
    """Who signs all of it."""
    folder: Path
    """Where the files are."""

    @property
    def options(self) -> tuple[str, ...]:
        """The options of a server with TLS."""
        return "--certificate", self.path("server.pem"), "--key", self.path("server.key")

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return str(self.folder / name)

    def context(self, *, certified: bool = False) -> ssl.SSLContext:
        """Return what a caller needs, perhaps with a certificate of its own."""
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        if certified:
            context.load_cert_chain(self.path("caller.pem"), self.path("caller.key"))
        return context


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """The files of an authority, a server and a caller."""
    folder = tmp_path_factory.mktemp("papers")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name, issued in (
        ("server", authority.issue_cert("localhost", "127.0.0.1")),
        ("caller", authority.issue_cert(_CALLER)),
    ):
        issued.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        for blob in issued.cert_chain_pems:
            blob.write_to_path(str(folder / f"{name}.pem"), append=True)
    return Papers(authority, folder)


@pytest.fixture
async def service() -> AsyncIterator[Emulator]:
    """Who sends the callbacks."""
    async with Emulator(5) as emulator:
        yield emulator


async def test_credentials_over_tls(service: Emulator, papers: Papers) -> None:
    """With a certificate and a key it listens over TLS, the token address included."""
    with listening(*papers.options, **OAUTH2_VARIABLES) as command:
        assert command.url.startswith("https://127.0.0.1:")
        target = command.target(auth=OAUTH2, token_url=command.token_url, ssl=papers.context())
        assert (await service.fire_callback(target=target)).attempts == (200,)
        assert (await service.fire_callback(target=command.target())).attempts == ("tls",)


@pytest.mark.parametrize(
    ("pins", "status"),
    [
        ((), 200),
        (("--san", _CALLER), 200),
        (("--san", "other.invalid", "--san", _CALLER), 200),
        (("--san", "other.invalid"), 403),
        (("--subject", "CN=somebody else"), 403),
    ],
)
async def test_client_certificates(
    service: Emulator, papers: Papers, pins: tuple[str, ...], status: int
) -> None:
    """Where nobody is named a certificate of the authority will do, else it must be of those."""
    with listening(*papers.options, "--client-ca", papers.path("ca.pem"), *pins) as command:
        target = command.target(auth=None, ssl=papers.context(certified=True))
        assert (await service.fire_callback(target=target)).attempts == (status,)
        without = command.target(auth=None, ssl=papers.context())
        assert not isinstance((await service.fire_callback(target=without)).attempts[0], int)


async def test_all_of_it_together(papers: Papers) -> None:
    """Processes of their own: listen with mutual TLS and tokens, emulate, and trigger."""
    with listening(
        *papers.options, "--client-ca", papers.path("ca.pem"), **OAUTH2_VARIABLES
    ) as command:
        options = {
            "--callbacks": command.url,
            "--callback-token-url": command.token_url,
            "--callback-certificate": papers.path("caller.pem"),
            "--callback-key": papers.path("caller.key"),
            "--callback-ca": papers.path("ca.pem"),
        }
        arguments = [part for option in options.items() for part in option]
        with emulating(*arguments, **OAUTH2_VARIABLES) as emulator:
            fired = await emulator.trigger("--count", "2")
        assert (fired.returncode, fired.stderr) == (0, "")
        for line in fired.stdout.splitlines():
            name, event, *attempts = line.split()
            assert (event, attempts) == ("income_calculations", ["200"])
            assert (await command.read_line())["application_id"] == name
