"""``IncomeClient.from_env``: the proxy and the authorities that the environment names."""

import ssl
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
from attrs import evolve

from income_client import (
    ConfigurationError,
    ConnectionFailedError,
    DownloadError,
    DownloadPolicy,
    IncomeClient,
    RetryPolicy,
)
from income_client.emulator import Emulator
from tests.support.canaries import CANARY
from tests.support.proxies import proxying, terminating

ONCE: Final = RetryPolicy(max_attempts=1)


@pytest.fixture
def set_variables(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets variables, and no others of the client."""

    def set_(service: Emulator, **variables: str) -> None:
        for name in ("CLIENT_ID", "CLIENT_SECRET", "AUTH_URL", "PROXY", "CA_FILE"):
            monkeypatch.delenv(f"INCOME_{name}", raising=False)
        basic = service.basic
        known = {
            "INCOME_BASE_URL": service.url,
            "INCOME_USERNAME": basic.username,
            "INCOME_PASSWORD": basic.password.reveal(),
        }
        for name, value in {**known, **variables}.items():
            monkeypatch.setenv(name, value)

    return set_


def written(authority: trustme.CA, folder: Path) -> str:
    """Write the certificate of an authority to a file, and return its path."""
    path = folder / "authority.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


async def test_the_proxy_is_used(set_variables: Any) -> None:
    """Every request goes through the one that INCOME_PROXY names."""
    async with Emulator(3) as service, proxying(service.url) as (port, came):
        set_variables(service, INCOME_PROXY=f"http://127.0.0.1:{port}")
        async with IncomeClient.from_env() as client:
            assert len((await client.get_application_page()).applications) == 3
        assert any(b"/v1/income/applications" in piece for piece in came)


@pytest.mark.parametrize("given", [None, "other"], ids=["none", "another"])
async def test_a_given_proxy_counts_in_place_of_the_variable(
    given: str | None, set_variables: Any
) -> None:
    """None as well, for no proxy at all."""
    async with Emulator(3) as service, proxying(service.url) as (port, came):
        set_variables(service, INCOME_PROXY="http://127.0.0.1:1")
        proxy = given and f"http://127.0.0.1:{port}"
        async with IncomeClient.from_env(proxy=proxy) as client:
            await client.get_application_page()
        assert bool(came) is (given is not None)


async def test_the_authorities_of_a_file_are_trusted(set_variables: Any, tmp_path: Path) -> None:
    """A service with a certificate of theirs is read; without the variable it is not."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    async with Emulator(3) as service, terminating(issued, service.url) as port:
        there = f"https://127.0.0.1:{port}"
        set_variables(service, INCOME_BASE_URL=there)
        async with IncomeClient.from_env(retry=ONCE) as client:
            with pytest.raises(ConnectionFailedError):
                await client.get_application_page()
        set_variables(service, INCOME_BASE_URL=there, INCOME_CA_FILE=written(authority, tmp_path))
        async with IncomeClient.from_env() as client:
            assert len((await client.get_application_page()).applications) == 3
        async with IncomeClient.from_env(ssl=ssl.create_default_context(), retry=ONCE) as client:
            with pytest.raises(ConnectionFailedError):
                await client.get_application_page()


async def test_files_come_over_tls_of_the_same_authorities(
    set_variables: Any, tmp_path: Path
) -> None:
    """A policy with a context of its own keeps to it."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    policy = DownloadPolicy(allowed_hosts=("127.0.0.1",), allow_private_networks=True)
    own = evolve(policy, ssl=ssl.create_default_context())
    async with Emulator(1) as service, terminating(issued, service.files_url) as port:
        set_variables(service, INCOME_CA_FILE=written(authority, tmp_path))
        async with IncomeClient.from_env(downloads=policy) as client:
            (entry, *_) = (await client.get_documents(service.world.ids[0])).all()
            there = entry.document.url.replace(service.files_url, f"https://127.0.0.1:{port}")
            document = evolve(entry.document, url=there)
            file = await client.download(document, tmp_path / "file")
            assert (tmp_path / "file").stat().st_size == file.size
        async with IncomeClient.from_env(downloads=own, retry=ONCE) as client:
            with pytest.raises(DownloadError):
                await client.download(document, tmp_path / "other")


async def test_an_unusable_file_of_authorities_is_an_error(
    set_variables: Any, tmp_path: Path
) -> None:
    """The variable is named; with a context of the caller's the file is not read at all."""
    (tmp_path / "empty").touch()
    async with Emulator(1) as service:
        for path in ("/nowhere", str(tmp_path), str(tmp_path / "empty"), "a\udcff" * 5000):
            set_variables(
                service, INCOME_CA_FILE=path, INCOME_PROXY=f"http://u:{CANARY}@127.0.0.1:1"
            )
            with pytest.raises(ConfigurationError, match=r"^INCOME_CA_FILE: "):
                IncomeClient.from_env()
            async with IncomeClient.from_env(ssl=ssl.create_default_context()):
                pass


async def test_an_unusable_proxy_is_an_error(set_variables: Any) -> None:
    """The error names the option."""
    async with Emulator(1) as service:
        set_variables(service, INCOME_PROXY=f"ftp://u:{CANARY}@127.0.0.1:1")
        with pytest.raises(ConfigurationError, match=r"^proxy "):
            IncomeClient.from_env()


@pytest.mark.parametrize("name", ["INCOME_BASE_URL", "INCOME_AUTH_URL"])
async def test_a_password_in_an_address_is_refused(set_variables: Any, name: str) -> None:
    """Credentials have variables of their own."""
    async with Emulator(3) as service:
        set_variables(service, **{name: f"https://user:{CANARY}@lender.example"})
        with pytest.raises(ConfigurationError, match=r"^\w+_url holds a user name"):
            IncomeClient.from_env()
