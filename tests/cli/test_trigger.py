"""``income-client trigger`` has a running emulator send callbacks."""

import json

import pytest

from income_client.emulator import CallbackTarget
from income_client.testing import IncomeService
from tests.support.beside import beside
from tests.support.cli import Cli, spelt
from tests.support.scripted_server import always, reply, serving
from tests.support.served import served

pytestmark = pytest.mark.income_service(applications=5)
NOBODY = "http://127.0.0.1:9"


def basic_variables(service: IncomeService, **instead: str) -> dict[str, str]:
    """Return the environment that ``emulate --basic`` prints."""
    return {
        "INCOME_BASE_URL": service.url,
        "INCOME_USERNAME": service.basic.username,
        "INCOME_PASSWORD": service.basic.password.reveal(),
        **instead,
    }


def test_a_callback_is_sent_about_an_update(
    service_cli: Cli, income_service: IncomeService
) -> None:
    """The application has changed just before, and one line says what became of it."""
    one = income_service.ids[2]
    income_service.advance(60)
    with beside(serving(always(reply()))) as server:
        income_service.callbacks = CallbackTarget(server.url)
        ran = service_cli("trigger", one)
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.stdout.split() == [one, "income_calculations", "200"]
    assert json.loads(server.seen[0].body)["application_id"] == one
    assert served(income_service, one)["last_updated_at"] == "2026-06-30T12:01:00Z"


def test_basic_credentials_will_do(cli: Cli, income_service: IncomeService) -> None:
    """Either kind of credentials that an emulator prints is accepted."""
    with beside(serving(always(reply()))) as server:
        income_service.callbacks = CallbackTarget(server.url)
        ran = cli("trigger", env=basic_variables(income_service))
    assert (ran.status, ran.stderr) == (0, "")
    assert income_service.token_requests == 0


def test_as_many_are_sent_as_are_asked_for(service_cli: Cli, income_service: IncomeService) -> None:
    """Each is about another application, and of the event that is given; nothing need change."""
    income_service.advance(60)
    with beside(serving(always(reply()))) as server:
        income_service.callbacks = CallbackTarget(server.url)
        ran = service_cli("trigger", "--count", "5", "--event", "extractions", "--no-update")
    assert ran.status == 0
    sent = [line.split() for line in ran.lines]
    assert {one for one, *_ in sent} == set(income_service.ids)
    assert {tuple(rest) for _, *rest in sent} == {("extractions", "200")}
    updates = {served(income_service, one)["last_updated_at"] for one in income_service.ids}
    assert max(updates) < "2026-06-30T12:01:00Z"


def test_a_callback_that_is_not_delivered_is_1(
    service_cli: Cli, income_service: IncomeService
) -> None:
    """Every attempt is shown; one callback that was not taken makes the status 1."""
    with beside(serving(always(reply(503), reply(), reply(400), reply()))) as server:
        income_service.callbacks = CallbackTarget(server.url, pauses=[0])
        ran = service_cli("trigger", "--count", "3", "--event", "error")
    assert (ran.status, ran.stderr) == (1, "")
    assert [line.split()[2:] for line in ran.lines] == [["503", "200"], ["400"], ["200"]]


def test_an_emulator_without_a_target_is_reported(service_cli: Cli) -> None:
    """The message names the option that gives it one."""
    ran = service_cli("trigger")
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "--callbacks" in ran.stderr


def test_an_unknown_application_is_reported(
    service_cli: Cli, income_service: IncomeService
) -> None:
    """An id that the emulator does not have is an error."""
    income_service.callbacks = CallbackTarget(NOBODY)
    ran = service_cli("trigger", "nobody")
    assert (ran.status, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "no application" in ran.stderr


def test_refused_credentials_are_not_shown(cli: Cli, income_service: IncomeService) -> None:
    """Credentials of another emulator are refused, of either kind."""
    wrong = {"INCOME_CLIENT_SECRET": "hidden"}
    for env in (
        {**income_service.environment, **wrong},
        basic_variables(income_service, INCOME_PASSWORD="hidden"),
    ):
        ran = cli("trigger", env=env)
        assert ran.status != 0
        assert (ran.stdout, ran.stderr.count("\n")) == ("", 1)
        assert "INCOME_BASE_URL" in ran.stderr
        assert "hidden" not in ran.stderr


@pytest.mark.parametrize(
    "answer",
    [
        reply(404),
        reply(405),
        reply(200, b"<html>", content_type="text/html"),
        reply(200, b"{}"),
        reply(200, b'{"attempts":[null]}'),
        reply(302, Location="/login"),
        None,
    ],
    ids=["404", "405", "a page", "nothing", "another shape", "redirect", "dropped"],
)
def test_what_is_no_emulator_is_reported(
    answer: bytes | None, cli: Cli, income_service: IncomeService
) -> None:
    """Something else at the address is an error, with either kind of credentials."""
    with beside(serving(always(answer))) as server:
        there = {"INCOME_BASE_URL": server.url}
        by_name = cli("trigger", env=basic_variables(income_service, **there))
        by_token = cli("trigger", env={**income_service.environment, **there})
    assert by_name == by_token
    assert (by_name.status, by_name.stdout, by_name.stderr.count("\n")) == (1, "", 1)
    assert "INCOME_BASE_URL" in by_name.stderr


@pytest.mark.parametrize(
    ("arguments", "env", "named"),
    [
        ((), {}, "INCOME_BASE_URL"),
        ((), {"INCOME_BASE_URL": NOBODY}, "INCOME_CLIENT_ID"),
        (
            (),
            {"INCOME_BASE_URL": NOBODY, "INCOME_CLIENT_ID": "x"},
            "INCOME_CLIENT_SECRET",
        ),
        (
            (),
            {
                "INCOME_BASE_URL": "https://income.example.com",
                "INCOME_USERNAME": "x",
                "INCOME_PASSWORD": "hidden",
            },
            "this machine",
        ),
        (
            ("--event", "\udcff"),
            {"INCOME_BASE_URL": NOBODY, "INCOME_USERNAME": "x", "INCOME_PASSWORD": "y"},
            "event_type",
        ),
        (("--count", "0"), {}, "--count"),
        (("one", "two"), {}, "two"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else spelt(value),
)
def test_misuse(arguments: tuple[str, ...], env: dict[str, str], named: str, cli: Cli) -> None:
    """What is missing, invalid or leads elsewhere is named, and nothing is sent."""
    ran = cli("trigger", *arguments, env=env)
    assert (ran.status, ran.stdout) == (2, "")
    assert named in ran.words
    assert "hidden" not in ran.stderr


def test_help_explains_every_outcome(cli: Cli) -> None:
    """Every word that may be in a line in place of a status has a line that explains it."""
    shown = cli("trigger", "--help").stdout
    for word in (
        "refused", "unreachable", "tls", "timeout", "dropped", "reset", "cut_short", "unreadable",
        "failed", "closed", "token_",
    ):  # fmt: skip
        assert word in shown
