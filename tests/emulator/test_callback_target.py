"""Where callbacks may go, and what becomes of an attempt."""

import ssl
from typing import Any, Final

import pytest

from income_client import BasicAuth, OAuth2ClientCredentials
from income_client.emulator import CallbackTarget, Emulator
from income_client.emulator.callbacks import CallbackAnswer
from income_client.errors import ConfigurationError

URL: Final = "http://127.0.0.1:9000/callbacks"
OAUTH2: Final = OAuth2ClientCredentials("callback-client", "invented-secret")


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "https://localhost:9000/callbacks?source=income",
        "http://[::1]:9000",
        "http://127.255.0.1/",
        "http://localhost",
    ],
)
def test_this_machine_can_be_called(url: str) -> None:
    """An address of this machine is a target, in http and in https."""
    assert CallbackTarget(url).url == url


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/callbacks",
        "http://127.0.0.1.example.com/",
        "http://user@127.0.0.1/",
        "http://127.0.0.1@example.com/",
        "http://user:secret@127.0.0.1/",
        "http://127.0.0.1\\@example.com/",
        "http://127.0.0.1/#part",
        "http://127.0.0.1/a b",
        "http://127.0.0.1/\r\nX: y",
        "http://127.1/",
        "http://0.0.0.0/",
        "http://0x7f.0.0.1/",
        "http://127.0.0.01/",
        "http://[::ffff:127.0.0.1]/",
        "http://app.localhost/",
        "http://127.0.0.1:70000/",
        "http://127.0.0.1:/",
        "http://10.0.0.1/",
        "ftp://127.0.0.1/",
        "HTTP://127.0.0.1/",
        "127.0.0.1:9000",
        "",
        None,
        b"http://127.0.0.1/",
    ],
)
def test_nothing_else_can_be_called(url: Any) -> None:
    """Another host, or an address that could be read in two ways, is refused, never repeated."""
    with pytest.raises(ConfigurationError, match=r"^url ") as caught:
        CallbackTarget(url)
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"^token_url "):
        CallbackTarget(URL, auth=OAUTH2, token_url=url if url is not None else "")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"auth": "secret"}, "auth is BasicAuth or OAuth2ClientCredentials, not str"),
        ({"auth": OAUTH2}, "token_url is needed"),
        ({"token_url": URL}, "auth is no OAuth2ClientCredentials"),
        ({"ssl": True}, "ssl is an SSLContext"),
        ({"ssl": ssl.create_default_context()}, "no address is https"),
        ({"pauses": 3}, "pauses are several numbers"),
        ({"pauses": [1, -1]}, "each of the pauses is a number, 0 or more"),
        ({"timeout": 0}, "timeout is a number above 0"),
        ({"timeout": float("inf")}, "timeout is a number"),
        ({"renews_on_401": 1}, "renews_on_401 is True or False"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any], said: str) -> None:
    """A wrong setting is a configuration error that says what is taken."""
    with pytest.raises(ConfigurationError, match=said):
        CallbackTarget(URL, **wrong)


def test_it_shows_no_secret() -> None:
    """Neither an address, whose query may hold one, nor credentials are in the text of a target."""
    target = CallbackTarget(f"{URL}?key=hidden-1", auth=BasicAuth("partner", "hidden-2"))
    assert "hidden" not in repr(target)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_it_sends_again_five_times(status: int) -> None:
    """After a passing failure comes a growing pause, five times in all."""
    target = CallbackTarget(URL)
    answer = CallbackAnswer(status=status)
    assert [target.pause_after(answer, n) for n in range(6)] == [1, 2, 4, 8, 16, None]


@pytest.mark.parametrize(
    "answer",
    [
        *(CallbackAnswer(status=each) for each in (200, 202, 204, 301, 307, 400, 401, 403, 408)),
        *(CallbackAnswer(status=each) for each in (404, 409, 410, 413, 415, 422, 501, 505)),
        *(CallbackAnswer(fault=each) for each in ("refused", "timeout", "token_503")),
    ],
    ids=lambda answer: str(answer.outcome),
)
def test_it_does_not_send_again_otherwise(answer: CallbackAnswer) -> None:
    """Only the five statuses that are known make it send again."""
    assert CallbackTarget(URL).pause_after(answer, 0) is None


def test_what_is_not_known_can_be_chosen() -> None:
    """Retry-After and missing answers count where that is asked for."""
    target = CallbackTarget(URL, honours_retry_after=True, resends_unanswered=True, pauses=[3])
    assert target.pause_after(CallbackAnswer(status=503, retry_after=60), 0) == 60
    assert target.pause_after(CallbackAnswer(status=503, retry_after=1), 0) == 3
    assert target.pause_after(CallbackAnswer(fault="refused"), 0) == 3
    assert target.pause_after(CallbackAnswer(fault="refused"), 1) is None
    plain = CallbackTarget(URL, pauses=[3])
    assert plain.pause_after(CallbackAnswer(status=503, retry_after=60), 0) == 3


def test_an_emulator_takes_no_other_target() -> None:
    """What is no target is refused at construction and later."""
    wrong: Any = URL
    with pytest.raises(ConfigurationError, match="CallbackTarget"):
        Emulator(1, callbacks=wrong)
    service = Emulator(1)
    with pytest.raises(ConfigurationError, match="CallbackTarget"):
        service.callbacks = wrong
    service.callbacks = CallbackTarget(URL)
    assert service.callbacks == CallbackTarget(URL)
