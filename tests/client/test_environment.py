"""A client's settings out of environment variables."""

from typing import get_type_hints

import pytest

from income_client import BasicAuth, ConfigurationError, IncomeClient, OAuth2ClientCredentials
from income_client.environment import ClientOptions, read_environment

URL = {"INCOME_BASE_URL": "https://income.example"}
OAUTH2 = {"INCOME_CLIENT_ID": "id", "INCOME_CLIENT_SECRET": "invented"}
BASIC = {"INCOME_USERNAME": "user", "INCOME_PASSWORD": "invented"}


@pytest.mark.parametrize(
    ("variables", "auth", "auth_url"),
    [
        (URL | OAUTH2, OAuth2ClientCredentials("id", "invented"), None),
        (URL | BASIC, BasicAuth("user", "invented"), None),
        (
            URL | OAUTH2 | {"INCOME_AUTH_URL": "https://token.example"},
            OAuth2ClientCredentials("id", "invented"),
            "https://token.example",
        ),
        (URL | BASIC | {"INCOME_AUTH_URL": ""}, BasicAuth("user", "invented"), None),
        (
            URL | BASIC | {"INCOME_CLIENT_ID": "", "INCOME_CLIENT_SECRET": ""},
            BasicAuth("user", "invented"),
            None,
        ),
    ],
)
def test_either_kind_of_credentials_will_do(
    variables: dict[str, str], auth: object, auth_url: str | None
) -> None:
    """What is set is taken; what is empty counts as not set."""
    found = read_environment(variables)
    assert found.base_url == URL["INCOME_BASE_URL"]
    assert found.auth == auth
    assert found.auth_url == auth_url


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({}, "INCOME_BASE_URL"),
        (OAUTH2, "INCOME_BASE_URL"),
        ({"INCOME_BASE_URL": ""} | BASIC, "INCOME_BASE_URL"),
        (URL, "INCOME_CLIENT_ID"),
        (URL | OAUTH2 | BASIC, "either"),
        (URL | OAUTH2 | {"INCOME_USERNAME": "user"}, "either"),
        (URL | {"INCOME_CLIENT_ID": "id"}, "INCOME_CLIENT_SECRET"),
        (URL | {"INCOME_CLIENT_SECRET": "invented"}, "INCOME_CLIENT_ID"),
        (URL | {"INCOME_USERNAME": "user"}, "INCOME_PASSWORD"),
        (URL | {"INCOME_PASSWORD": "invented"}, "INCOME_USERNAME"),
    ],
)
def test_what_is_missing_or_doubled_is_named(variables: dict[str, str], named: str) -> None:
    """The error says which variable, and no value."""
    with pytest.raises(ConfigurationError, match=named) as caught:
        read_environment(variables)
    assert "invented" not in str(caught.value)


def test_every_other_option_can_be_given() -> None:
    """``from_env`` takes what the constructor takes, apart from address and credentials."""
    constructor = get_type_hints(IncomeClient.__init__)
    for name in ("base_url", "auth", "auth_url", "return"):
        del constructor[name]
    assert get_type_hints(ClientOptions) == constructor
    assert ClientOptions.__required_keys__ == frozenset()


def test_a_client_is_made_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """``from_env`` reads the process's own variables when it is called."""
    for name in ("INCOME_CLIENT_ID", "INCOME_CLIENT_SECRET", "INCOME_AUTH_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (URL | BASIC).items():
        monkeypatch.setenv(name, value)
    assert isinstance(IncomeClient.from_env(), IncomeClient)
    with pytest.raises(ConfigurationError, match="concurrency"):
        IncomeClient.from_env(concurrency=0)
    monkeypatch.setenv("INCOME_BASE_URL", "http://income.example")
    with pytest.raises(ConfigurationError):
        IncomeClient.from_env()


def test_no_variable_is_left_in_a_raising_frame() -> None:
    """The environment holds the secret, and whatever other secrets the process has."""
    variables = {"INCOME_BASE_URL": "https://x.example", "OTHER": "canary-1"}
    for more in ({}, {"INCOME_USERNAME": "u", "INCOME_PASSWORD": "canary-2\n"}):
        with pytest.raises(ConfigurationError) as caught:
            read_environment(variables | more)
        frames = []
        trace = caught.value.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        held = repr([frame.f_locals for frame in frames[1:]])
        assert "canary" not in held
        assert caught.value.__context__ is None
