"""A client's settings from environment variables and from a configuration file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_type_hints

import pytest

from income_client import BasicAuth, ConfigurationError, IncomeClient, OAuth2ClientCredentials
from income_client.configuration import KEYS, ClientOptions, from_variables

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
    found = from_variables(variables)
    assert found.account.base_url == URL["INCOME_BASE_URL"]
    assert found.auth() == auth
    assert found.account.auth_url == auth_url


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
        from_variables(variables).auth()
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


# Configuration files


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home without files, and no variable of the client."""
    for key in KEYS:
        monkeypatch.delenv(f"INCOME_{key.upper()}", raising=False)
    monkeypatch.delenv("INCOME_CONFIG", raising=False)
    monkeypatch.delenv("INCOME_PROFILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    """Write a configuration file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


def table(host: str) -> str:
    """Return the keys of a whole account, in TOML."""
    return f'base_url = "https://{host}"\nusername = "user"\npassword = "c4n4ry"\n'


make_from_config: Any = IncomeClient.from_config
make_from_env: Any = IncomeClient.from_env
FILE: Final = f"{table('top.example')}[profiles.two]\n{table('two.example')}"


@pytest.mark.parametrize(
    ("profile", "by_path", "in_environment", "host"),
    [
        (None, False, False, "top.example"),
        ("two", False, False, "two.example"),
        (None, False, True, "variables.example"),
        ("two", False, True, "two.example"),
        (None, True, True, "top.example"),
        ("two", True, True, "two.example"),
    ],
)
def test_a_client_is_made_from_a_configuration_file(
    profile: str | None,
    by_path: bool,
    in_environment: bool,
    host: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A profile comes before the environment, and so does a file whose path is given."""
    path = written(tmp_path / "config/income-client/config.toml", FILE)
    if by_path:
        path = path.rename(tmp_path / "other.toml")
    if in_environment:
        for name, value in (BASIC | {"INCOME_BASE_URL": "https://variables.example"}).items():
            monkeypatch.setenv(name, value)
    client = IncomeClient.from_config(profile, path if by_path else None, concurrency=3)
    assert repr(client) == f"<IncomeClient of {host}>"


def test_the_file_of_the_variable_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """INCOME_CONFIG names it."""
    monkeypatch.setenv("INCOME_CONFIG", str(written(tmp_path / "file.toml", FILE)))
    assert repr(IncomeClient.from_config()) == "<IncomeClient of top.example>"


def test_the_variable_chooses_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """INCOME_PROFILE is what profile is where that is not given, over the other variables too."""
    path = written(tmp_path / "config/income-client/config.toml", FILE)
    for name, value in (BASIC | {"INCOME_BASE_URL": "https://variables.example"}).items():
        monkeypatch.setenv(name, value)
    for value, host in (("two", "two.example"), ("", "variables.example")):
        monkeypatch.setenv("INCOME_PROFILE", value)
        assert repr(IncomeClient.from_config()) == f"<IncomeClient of {host}>"
        assert repr(IncomeClient.from_config("two")) == "<IncomeClient of two.example>"
        assert repr(IncomeClient.from_env()) == "<IncomeClient of variables.example>"
    monkeypatch.setenv("INCOME_PROFILE", "three")
    with pytest.raises(ConfigurationError, match=r"no profile three \(of INCOME_PROFILE\); there"):
        IncomeClient.from_config(path=path)


UNUSABLE: Final = {
    "nothing": ("", 0o600, "INCOME_BASE_URL, or base_url in "),
    "no secret": (
        'base_url = "https://x"\nusername = "user"',
        0o600,
        "INCOME_PASSWORD, or password",
    ),
    "open to others": (table("x.example"), 0o644, "chmod 600"),
    "not https": (table("x.example").replace("https", "http"), 0o600, "base_url in "),
    "password in address": (table("user:c4n4ry@x.example"), 0o600, "base_url in "),
    "proxy": (f'proxy = "ftp://u:c4n4ry@x"\n{table("x.example")}', 0o600, "proxy in "),
    "not TOML": ("c4n4ry", 0o600, "not TOML"),
    "unknown key": ("secret = 'c4n4ry'", 0o600, "unknown key secret"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_an_unusable_file_is_named_and_not_shown(what: str, tmp_path: Path) -> None:
    """The error says which key is wrong in which file, and neither it nor a frame has a value."""
    path = written(tmp_path / "file.toml", *UNUSABLE[what][:2])
    with pytest.raises(ConfigurationError) as caught:
        IncomeClient.from_config(path=path)
    assert UNUSABLE[what][2] in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_setting_names_the_variable_and_the_file(tmp_path: Path) -> None:
    """Nothing is set anywhere, and there is no file."""
    with pytest.raises(ConfigurationError, match=r"^set INCOME_BASE_URL, or base_url in "):
        IncomeClient.from_config()
    with pytest.raises(ConfigurationError, match=r"cannot read .*nowhere: no such file"):
        IncomeClient.from_config(path=tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match="has no profile three"):
        IncomeClient.from_config("three", written(tmp_path / "file.toml", FILE))


@pytest.mark.parametrize(
    "make",
    [
        lambda path: make_from_config(5, path),
        lambda path: make_from_config(["two"], path),
        lambda _: make_from_config(path=5),
        lambda _: make_from_config(path="a\0b"),
        lambda path: make_from_config("two", path, concurency=5),
        lambda path: make_from_config("two", path, auth=None),
        lambda _: make_from_env(concurency=5),
    ],
)
def test_a_wrong_argument_is_an_error_without_what_the_file_holds(
    make: Callable[[Path], object], tmp_path: Path
) -> None:
    """Nothing secret is in a frame of the error, whatever was mistaken."""
    path = written(tmp_path / "file.toml", FILE)
    with pytest.raises(ConfigurationError):
        make(path)
