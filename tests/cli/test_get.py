"""``income-client get``: what the service has and no other command reads."""

import json

import pytest

from income_client.emulator import Fault
from tests.support.cli import Cli
from tests.support.served import parsed, served

pytestmark = pytest.mark.income_service(applications=3)


@pytest.mark.shows_private("output", reason="a reply is printed as it came")
def test_the_reply_is_printed_whole(shell: Cli) -> None:
    """As one line of JSON, with addresses of files and data of the borrower."""
    one = shell.service.ids[0]
    for more in ("", "/documents"):
        ran = shell("get", f"/v1/income/applications/{one}{more}")
        assert (ran.status, ran.stderr, len(ran.lines)) == (0, "", 1)
        assert parsed(ran.stdout) == [served(shell.service, one, more)]


def test_parameters_go_into_the_query(shell: Cli) -> None:
    """Each with its value, whatever that holds; a name may come again."""
    line = ("get", "/v1/income/applications", "--param", "limit=2")
    ran = shell(*line, "--param", "updated_after=2000-01-01T00:00:00")
    assert len(json.loads(ran.stdout)["applications"]) == 2
    shell(*line[:2], "--param", "x=a=b&c d", "--param", "y=", "--param=x=-1")
    assert shell.service.requests[-1].query == "x=a%3Db%26c%20d&x=-1&y="


def test_numbers_keep_their_digits_and_texts_do_nothing_to_a_terminal(shell: Cli) -> None:
    """They are those that were sent; what could act on a terminal is escaped."""
    body = b'{"total":1.10,"rate":1E-7,"many":12345678901234567890.123,"name":"\\u001b[2J\xc2\x9b"}'
    shell.service.faults.add(Fault("body", body=body, path="/v1/*"))
    ran = shell("get", "/v1/x")
    assert ran.status == 0
    for digits in ('"total":1.10', '"rate":1E-7', '"many":12345678901234567890.123'):
        assert digits in ran.stdout
    assert json.loads(ran.stdout)["name"] == "\x1b[2J\x9b"
    assert "\x1b" not in ran.stdout
    assert "\x9b" not in ran.stdout


def test_a_failure_has_the_status_of_any_command(shell: Cli) -> None:
    for fault, status, said in (
        ("any: 404", 1, "get_json: 404 Not Found; is path right?"),
        ("any: 403", 4, "get_json: 403 Forbidden"),
    ):
        shell.service.faults.add(fault)
        ran = shell("get", "/v1/income/applications")
        assert (ran.status, ran.stdout) == (status, "")
        assert said in ran.stderr
