"""TLS contexts for callbacks: who may connect, and what is said of files that do not fit."""

import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from income_client import ConfigurationError
from income_client.receivers.tls import callback_ssl_context
from income_client.settings import Secret
from tests.support.callback_certificates import Papers
from tests.support.callbacks import Recording, ring, served_by_aiohttp

_PASSWORD = "correct horse battery"
FILES = ("certificate", "key", "client_ca")
NOT_A_PAIR = "are not a certificate and its private key"


async def shakes_hands(context: ssl.SSLContext, client: ssl.SSLContext) -> bool:
    async with served_by_aiohttp(Recording(), context) as url:
        try:
            return (await ring(url, ssl=client)).status == 200
        except (ssl.SSLError, EOFError, ConnectionError):
            return False


@pytest.mark.parametrize("is_optional", [False, True])
async def test_certificates_are_verified(papers: Papers, is_optional: bool) -> None:
    """A stranger's and an expired one never connect; without one it depends on the setting."""
    context = callback_ssl_context(
        **papers.files, client_certificates="optional" if is_optional else "required"
    )
    assert await shakes_hands(context, papers.client(papers.service()))
    assert await shakes_hands(context, papers.client()) is is_optional
    for paper in (papers.stranger(), papers.expired()):
        assert not await shakes_hands(context, papers.client(paper))


async def test_an_authority_below_a_root_may_stand_alone(papers: Papers, tmp_path: Path) -> None:
    """Its clients pass, those whom its root knows otherwise do not."""
    below = papers.client_ca.create_child_ca()
    below.cert_pem.write_to_path(tmp_path / "below.pem")
    context = callback_ssl_context(**papers.files | {"client_ca": tmp_path / "below.pem"})
    assert await shakes_hands(context, papers.client(below.issue_cert("callbacks.example")))
    assert not await shakes_hands(context, papers.client(papers.service()))


async def test_without_an_authority_it_is_tls_alone(papers: Papers) -> None:
    context = callback_ssl_context(**papers.files | {"client_ca": None})
    assert context.verify_mode == ssl.CERT_NONE
    assert await shakes_hands(context, papers.client())


def test_old_tls_and_the_machine_s_authorities_count_for_nothing(papers: Papers) -> None:
    """TLS 1.2 at least, and one authority: the one that was given."""
    context = callback_ssl_context(**papers.files)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.cert_store_stats() == {"x509": 1, "x509_ca": 1, "crl": 0}


def _encrypted(papers: Papers, folder: Path) -> Path:
    key = load_pem_private_key(papers.files["key"].read_bytes(), None)
    sealed = BestAvailableEncryption(_PASSWORD.encode())
    path = folder / "sealed.key"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed))
    return path


def test_an_encrypted_key_is_opened(papers: Papers, tmp_path: Path) -> None:
    files = papers.files | {"key": _encrypted(papers, tmp_path)}
    for password in (_PASSWORD, Secret(_PASSWORD)):
        assert callback_ssl_context(**files, password=password).verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        *(({name: "missing"}, f"{name}: .*cannot be read: No such file") for name in FILES),
        ({"client_ca": "."}, "client_ca: .*cannot be read: Is a directory"),
        ({"key": "other.key"}, "do not belong together"),
        *(({"key": name}, NOT_A_PAIR) for name in ("server.pem", "empty.pem")),
        ({"certificate": "server.key"}, NOT_A_PAIR),
        *(({"client_ca": name}, "holds no certificate") for name in ("empty.pem", "server.key")),
        ({"client_ca": "server.pem"}, "client_ca: .*is not an authority's"),
        ({"key": "sealed.key"}, "no password is given for"),
        ({"key": "sealed.key", "password": "wr0ng-p4ss"}, "the password does not open"),
        ({"key": "sealed.key", "password": "wr0ng-p4ss" * 200}, "too long"),
        ({"key": 7}, "key: .*cannot be read"),
        ({"certificate": None}, "certificate: 'None' cannot be read"),
        ({"client_certificates": "none"}, "'required' or 'optional'"),
    ],
)
def test_what_is_wrong_with_the_files_is_said(
    papers: Papers, tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    """The message names the argument and the file, and never the password."""
    for path in papers.files.values():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "empty.pem").write_bytes(b"")
    (tmp_path / "other.key").write_bytes(
        papers.client_ca.issue_cert("other.example").private_key_pem.bytes()
    )
    _encrypted(papers, tmp_path)
    paths = {k: tmp_path / v if _is_file(k, v) else v for k, v in changed.items()}
    here = {name: tmp_path / path.name for name, path in papers.files.items()}
    with pytest.raises(ConfigurationError, match=said) as caught:
        callback_ssl_context(**here | paths)
    assert "wr0ng" not in str(caught.value)


def _is_file(name: str, value: object) -> bool:
    return name in FILES and isinstance(value, str)
