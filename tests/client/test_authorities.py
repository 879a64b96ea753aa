"""Certificate authorities of the user's own, and the file of keys that SSLKEYLOGFILE names."""

import os
import ssl
import subprocess
import sys
from codecs import BOM_UTF8
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from income_client import (
    BasicAuth,
    ConfigurationError,
    ConnectionFailedError,
    IncomeClient,
    RetryPolicy,
)
from income_client.configuration import from_variables
from tests.support.server import ScriptedServer, in_turn, reply

AUTH: Final = BasicAuth("user", "invented")
ONCE: Final = RetryPolicy(max_attempts=1)


def test_a_byte_order_mark_is_no_part_of_the_authorities(tmp_path: Path) -> None:
    authority = trustme.CA().cert_pem.bytes()
    settings = from_variables({"INCOME_CA_FILE": str(tmp_path / "ca.pem")})
    for content in (authority, BOM_UTF8 + authority):
        (tmp_path / "ca.pem").write_bytes(content)
        context = settings.tls()
        assert context is not None
        assert ssl.PEM_cert_to_DER_cert(authority.decode()) in context.get_ca_certs(
            binary_form=True
        )
    (tmp_path / "ca.pem").write_bytes(BOM_UTF8 + b"no certificate")
    with pytest.raises(ConfigurationError, match="holds no certificate"):
        settings.tls()


def named(name: str) -> x509.Name:
    """Return a subject with a common name."""
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def old_authority(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Return a server's context, and its authority without the extensions that 3.13 requires."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = named("old authority")
    begin, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)

    def certificate(subject: x509.Name, *extensions: x509.ExtensionType) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        signed = builder.sign(key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)

    ca_file, server_file = folder / "ca.pem", folder / "server.pem"
    ca_file.write_bytes(certificate(name, x509.BasicConstraints(ca=True, path_length=None)))
    host = x509.IPAddress(ip_address("127.0.0.1"))
    server_file.write_bytes(
        certificate(named("127.0.0.1"), x509.SubjectAlternativeName([host]))
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(server_file)
    return server, ca_file


async def test_an_old_authority_of_a_company_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From CPython 3.13 on, default contexts refuse certificates without some extensions."""
    make_default = ssl.create_default_context

    def make_strict() -> ssl.SSLContext:
        context = make_default()
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", make_strict)
    server_side, ca_file = old_authority(tmp_path)
    async with ScriptedServer(in_turn(reply(body=b"{}")), server_side) as server:
        context = from_variables({"INCOME_CA_FILE": str(ca_file)}).tls()
        async with IncomeClient(server.url, auth=AUTH, ssl=context) as client:
            assert await client.get_json("/x") == {}
        strict = make_strict()
        strict.load_verify_locations(ca_file)
        async with IncomeClient(server.url, auth=AUTH, ssl=strict, retry=ONCE) as client:
            with pytest.raises(
                ConnectionFailedError, match=r"TLS certificate not accepted: [A-Za-z]"
            ):
                await client.get_json("/x")


@pytest.mark.parametrize("path", ["/nowhere/keys", "/", "/proc/x"])
def test_a_file_of_keys_that_cannot_be_written_is_named(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of Python names neither the variable nor what it is for."""
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSLKEYLOGFILE", path)
    with pytest.raises(ConfigurationError, match=r"SSLKEYLOGFILE: cannot write"):
        from_variables({"INCOME_CA_FILE": str(tmp_path / "ca.pem")}).tls()


@pytest.mark.parametrize("name", ["IncomeClient", "SyncIncomeClient", "configuration.from_file"])
def test_a_file_of_keys_that_cannot_be_written_ends_no_import_with_a_foreign_error(
    name: str,
) -> None:
    """Aiohttp makes a context while it is imported."""
    module, _, attribute = f"income_client.{name}".rpartition(".")
    ran = subprocess.run(
        [sys.executable, "-c", f"from {module} import {attribute}"],
        env={**os.environ, "SSLKEYLOGFILE": "/nowhere/keys"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert ran.returncode == 1
    assert "ConfigurationError: SSLKEYLOGFILE: cannot write /nowhere/keys" in ran.stderr
