"""``income-client emulate --callbacks``: where callbacks go, and with which credentials."""

import json
import signal

import pytest

from tests.cli.entry import run
from tests.cli.listening import BASIC, BASIC_VARIABLES, OAUTH2_VARIABLES
from tests.cli.polling import ended, until
from tests.cli.triggering import emulating
from tests.support.scripted_server import always, forever, reply, serving, with_tokens

URL = "http://127.0.0.1:9/callbacks"
TLS = "https://127.0.0.1:9/"


async def test_a_running_emulator_can_be_triggered() -> None:
    """What it prints is enough for ``trigger``; it says where callbacks go, without the query."""
    async with serving(always(reply())) as server:
        with emulating("--callbacks", f"{server.url}/in?key=hidden", **BASIC_VARIABLES) as emulator:
            assert f"# Callbacks go to {server.url}/in; income-client trigger fires one.\n" in (
                emulator.lines
            )
            fired = await emulator.trigger("--event", "error")
    assert (fired.returncode, fired.stderr) == (0, "")
    (seen,) = server.seen
    assert (seen.path, seen.query) == ("/in", "key=hidden")
    assert seen.authorization == BASIC.authorization().reveal()
    assert json.loads(seen.body)["event_type"] == "error"


async def test_tokens_are_bought_where_it_is_told() -> None:
    """With an address for tokens, the client id and secret buy one that callbacks carry."""
    async with serving(with_tokens(always(reply()))) as server:
        arguments = ("--callbacks", server.url, "--callback-token-url", f"{server.url}/token")
        with emulating(*arguments, **OAUTH2_VARIABLES, **BASIC_VARIABLES) as emulator:
            fired = await emulator.trigger("--count", "2")
    assert fired.returncode == 0
    assert [one.authorization for one in server.seen if one.path != "/token"] == [
        "Bearer token-1"
    ] * 2


async def test_callbacks_need_no_credentials() -> None:
    """An endpoint that checks nothing, or a certificate, is called without them."""
    async with serving(always(reply())) as server:
        with emulating("--callbacks", server.url) as emulator:
            assert (await emulator.trigger()).returncode == 0
    assert server.seen[0].authorization == ""


async def test_updates_fire_callbacks() -> None:
    """With ``--updates`` each update is told, and at the end what became of the callbacks."""
    async with serving(always(reply())) as server:
        with emulating("--callbacks", server.url, "--updates", "50") as emulator:
            await until(lambda: len(server.seen) >= 25)
            emulator.process.send_signal(signal.SIGTERM)
            lines, errors = await ended(emulator.process)
            assert emulator.process.returncode == 0
    assert lines == ""
    assert errors.startswith("income-client: callbacks: ")
    assert "delivered, 0 not" in errors
    named = {json.loads(seen.body)["application_id"] for seen in server.seen}
    assert len(named) == 20


async def test_an_endpoint_that_hangs_holds_nothing_back() -> None:
    """No more than 16 callbacks are under way; updates go on, and those left out are counted."""

    async def silent(*_: object) -> None:
        await forever()

    async with serving(silent) as server:
        with emulating("--callbacks", server.url, "--updates", "200") as emulator:
            await until(lambda: len(server.seen) >= 16)
            fired = await emulator.trigger("nobody")
            assert "no application" in fired.stderr
            emulator.process.send_signal(signal.SIGINT)
            _, errors = await ended(emulator.process)
            assert emulator.process.returncode == 130
        assert len(server.seen) == 16
    assert "skipped while 16 were under way" in errors


@pytest.mark.parametrize(
    ("arguments", "variables", "said", "status"),
    [
        (("--callback-token-url", URL), {}, "options of callbacks need --callbacks", 2),
        (("--callback-ca", "x.pem"), {}, "options of callbacks need --callbacks", 2),
        (
            ("--callbacks", "http://example.com/"),
            {},
            "--callbacks is an http or https address of this",
            2,
        ),
        (
            ("--callbacks", "http://u:hidden@127.0.0.1/"),
            {},
            "--callbacks is an http or https address",
            2,
        ),
        (
            ("--callbacks", URL, "--callback-token-url", URL),
            {},
            "needs INCOME_CALLBACK_CLIENT_ID",
            2,
        ),
        (("--callbacks", URL), OAUTH2_VARIABLES, "needs --callback-token-url", 2),
        (
            ("--callbacks", URL),
            {"INCOME_CALLBACK_PASSWORD": "hidden"},
            "INCOME_CALLBACK_USERNAME is not set",
            2,
        ),
        (
            ("--callbacks", URL, "--callback-token-url", "http://example.com/?hidden"),
            {},
            "--callback-token-url is an http or https address of this",
            2,
        ),
        (
            ("--callbacks", URL, "--callback-ca", "x.pem"),
            {},
            "need an address with https in --c",
            2,
        ),
        (("--callbacks", TLS, "--callback-certificate", "x.pem"), {}, "go together", 2),
        (("--callbacks", TLS, "--callback-ca", "nowhere.pem"), {}, "holds no certificate", 1),
        (
            ("--callbacks", TLS, "--callback-certificate", "nowhere", "--callback-key", "nowhere"),
            {},
            "no certificate with its unencrypted private key",
            1,
        ),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    arguments: tuple[str, ...], variables: dict[str, str], said: str, status: int
) -> None:
    """A wrong option or variable is one line with status 2, a file one with 1; none is shown."""
    refused = run("emulate", *arguments, **variables)
    assert (refused.returncode, refused.stdout) == (status, "")
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert "hidden" not in refused.stderr
