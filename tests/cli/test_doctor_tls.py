"""``income-client doctor`` over TLS: trusted, foreign and misnamed certificates."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from income_client.emulator import Emulator
from tests.cli.entry import run
from tests.cli.running import variables
from tests.cli.tls_front import terminating


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who signs the certificates."""
    return trustme.CA(organization_name="An Authority")


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path) -> str:
    """The authority in a file, as SSL_CERT_FILE takes it."""
    file = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    return str(file)


async def findings(
    service: Emulator, issued: trustme.LeafCert, **changes: str
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit status and the findings of the service behind a certificate."""
    async with terminating(issued, service) as port:
        together = {
            **variables(service),
            "INCOME_BASE_URL": f"https://localhost:{port}",
            **changes,
        }
        ended = await asyncio.to_thread(run, "doctor", "--output", "json", **together)
    return ended.returncode, {row["check"]: row for row in json.loads(ended.stdout)["findings"]}


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "INCOME_CA_FILE"])
async def test_a_trusted_certificate(authority: trustme.CA, trusted: str, name: str) -> None:
    """The name is looked up, and the certificate told with its days, whoever names its file."""
    ends = datetime.now(UTC) + timedelta(days=40, hours=12)
    issued = authority.issue_cert("localhost", common_name="localhost", not_after=ends)
    async with Emulator(20) as service:
        status, found = await findings(service, issued, **{name: trusted})
    assert status == 0
    assert found["DNS"]["finding"].startswith("localhost is ")
    assert "TLSv1." in found["connection"]["finding"]
    assert found["certificate"]["finding"].startswith("localhost, by An Authority")
    assert found["certificate"]["finding"].endswith("40 days left")
    assert found["bounds"]["verdict"] == "ok"


@pytest.mark.parametrize(
    ("name", "is_known", "expired", "words"),
    [
        ("localhost", False, False, "unable to get local issuer certificate"),
        ("api.example.com", True, False, "Hostname mismatch"),
        ("localhost", True, True, "certificate has expired"),
    ],
)
async def test_a_certificate_that_is_not_believed(
    authority: trustme.CA, trusted: str, name: str, *, is_known: bool, expired: bool, words: str
) -> None:
    """What is wrong with it is told, with an advice, and no credentials are sent."""
    ends = datetime.now(UTC) - timedelta(days=1) if expired else None
    issued = authority.issue_cert(name, not_after=ends)
    async with Emulator(20) as service:
        known = {"SSL_CERT_FILE": trusted} if is_known else {}
        status, found = await findings(service, issued, **known)
        assert service.requests == []
    assert status == 1
    assert found["connection"]["verdict"] == "failed"
    assert words in found["connection"]["finding"]
    assert "INCOME_CA_FILE" in found["connection"]["advice"]
    assert found["credentials"]["finding"] == "needs connection"
