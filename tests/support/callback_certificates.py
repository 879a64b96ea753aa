"""Authorities and certificates made up for a test, as files and as TLS contexts."""

import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import trustme
from attrs import frozen

SERVICE: Final = "callbacks.service.example"
"""DNS name in the certificate of who may ring."""
SUBJECT: Final = "CN=callbacks,OU=Outbound,O=Income Service"
"""Its subject."""


@frozen
class Papers:
    """A server's own authority, that of its clients, another one, and a folder with their files."""

    folder: Path
    server_ca: trustme.CA
    client_ca: trustme.CA
    stranger_ca: trustme.CA

    @property
    def files(self) -> dict[str, Any]:
        """The server's certificate and key, and the clients' authority, as arguments."""
        return {
            "certificate": self.folder / "server.pem",
            "key": self.folder / "server.key",
            "client_ca": self.folder / "client_ca.pem",
        }

    def client(self, paper: trustme.LeafCert | None = None) -> ssl.SSLContext:
        """Return the context of a client with a certificate, or with none."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.server_ca.configure_trust(context)
        if paper is not None:
            paper.configure_cert(context)
        return context

    def service(self, **changed: Any) -> trustme.LeafCert:
        """Return the certificate of who may ring, or one that differs from it."""
        return issued(self.client_ca, **changed)

    def expired(self) -> trustme.LeafCert:
        """Return one of who was allowed to ring, once."""
        return self.service(
            not_before=datetime(2020, 1, 1, tzinfo=UTC), not_after=datetime(2021, 1, 1, tzinfo=UTC)
        )

    def stranger(self) -> trustme.LeafCert:
        """Return one that says the same, of another authority."""
        return issued(self.stranger_ca)


def issued(ca: trustme.CA, *names: str, **changed: Any) -> trustme.LeafCert:
    """Return a certificate that names the service unless changed."""
    fields = {
        "common_name": "callbacks",
        "organization_unit_name": "Outbound",
        "organization_name": "Income Service",
    } | changed
    return ca.issue_cert(*(names or (SERVICE,)), **fields)


def made_papers(folder: Path) -> Papers:
    """Make all of it, with the files that a server needs."""
    papers = Papers(folder, trustme.CA(), trustme.CA(), trustme.CA())
    server = papers.server_ca.issue_cert("localhost", "127.0.0.1")
    server.cert_chain_pems[0].write_to_path(folder / "server.pem")
    server.private_key_pem.write_to_path(folder / "server.key")
    papers.client_ca.cert_pem.write_to_path(folder / "client_ca.pem")
    return papers


def pem_of(paper: trustme.LeafCert) -> str:
    return paper.cert_chain_pems[0].bytes().decode()


def der_of(paper: trustme.LeafCert) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem_of(paper))
