"""``income-client download --names``: an invalid template is refused before anything is done."""

import pytest

from income_client.testing import IncomeService
from tests.support.cli import Cli


@pytest.mark.income_service(applications=1)
@pytest.mark.parametrize("chosen", [("app-1",), ("--updated-after", "7d")], ids=["ids", "span"])
@pytest.mark.parametrize(
    "names",
    ["../{document_id}.{ext}", "{ssn}.{ext}", "fixed.{ext}", "/x/{"],
    ids=["leads-out", "unknown-field", "same-for-all", "open-brace"],
)
def test_an_invalid_template_leaves_nothing_behind(
    names: str, chosen: tuple[str, ...], service_cli: Cli, income_service: IncomeService
) -> None:
    """No folder is made, no manifest, and nothing is sent."""
    ran = service_cli("download", "--to", "files", "--names", names, *chosen)
    assert (ran.status, ran.stdout) == (2, "")
    assert "--names" in ran.stderr
    assert not (service_cli.folder / "files").exists()
    assert len(income_service.requests) == 0
