"""The question for a missing secret, at a terminal that belongs to the command."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from income_client.testing import IncomeService
from tests.support.processes import Process, environment, started
from tests.support.streams import Terminal

pytestmark = pytest.mark.income_service(applications=3)


@pytest.fixture
def config(income_service: IncomeService, tmp_path: Path) -> str:
    """A file that lacks nothing but the secret."""
    path = tmp_path / "config"
    client_id = income_service.oauth2.client_id
    path.write_text(f'base_url = "{income_service.url}"\nclient_id = "{client_id}"\n', "utf-8")
    path.chmod(0o600)
    return str(path)


@contextmanager
def asking(config: str) -> Iterator[Process]:
    """Have the command ask for the secret."""
    arguments = ("applications", "-q", "--config", config)
    with started(
        *arguments, env=environment(), terminal=Terminal(), piped=True, owns_terminal=True
    ) as process:
        process.stderr.wait_for("(not shown): ")
        yield process


def test_a_person_is_asked_and_nothing_is_shown(config: str, income_service: IncomeService) -> None:
    """The answer is hidden while it is typed, and used."""
    secret = income_service.oauth2.client_secret.reveal()
    with asking(config) as process:
        process.write(f"{secret}\n")
        ran = process.wait()
    assert (ran.status, sorted(ran.lines)) == (0, sorted(income_service.ids))
    assert f"Client secret of {income_service.oauth2.client_id}" in ran.screen
    assert secret not in ran.screen


@pytest.mark.parametrize(
    ("keys", "status"), [("\x03", 130), ("\x04", 2), ("\n", 2)], ids=["Ctrl-C", "Ctrl-D", "Enter"]
)
def test_a_question_without_an_answer_ends_it(
    keys: str, status: int, config: str, income_service: IncomeService
) -> None:
    """Ctrl-C ends the question at once; without an answer the secret is missing."""
    with asking(config) as process:
        process.write(keys)
        ran = process.wait()
    assert (ran.status, ran.stdout) == (status, "")
    assert ("INCOME_CLIENT_SECRET" in ran.screen) is (status == 2)
    assert "Traceback" not in ran.screen
    assert len(income_service.requests) == 0
