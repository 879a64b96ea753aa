"""Settings and hosts as values, and a client's settings from variables and from a file."""

import contextlib
import copy
import itertools
import math
import pickle
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Never, get_type_hints

import pytest
import trustme
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client import (
    BasicAuth,
    ConfigurationError,
    DownloadError,
    DownloadPolicy,
    IncomeClient,
    OAuth2ClientCredentials,
    RetryPolicy,
    Secret,
    Timeouts,
    TokenError,
)
from income_client.configuration import (
    KEYS,
    ClientOptions,
    Configuration,
    FileCredentials,
    SyncClientOptions,
    from_file,
    from_variables,
)
from income_client.emulator import Emulator
from income_client.http.credentials import SecretFileError
from income_client.settings import (
    DeprecatedOptions,
    check_not_negative,
    check_positive,
    is_number,
)
from income_client.system.hosts import is_this_machine, plain_host, read_address, read_host_pattern
from tests.support.canaries import CANARY
from tests.support.proxies import proxying, terminating
from tests.support.server import EMPTY_PAGE, UNAUTHORIZED, Reply, Request, ScriptedServer

Environ = Callable[[Mapping[str, str]], None]


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Environ:
    """A home without files, and no variable of the client but those that this function sets."""
    for name in (*(f"INCOME_{key.upper()}" for key in KEYS), "INCOME_CONFIG", "INCOME_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def set_all(variables: Mapping[str, str]) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all


# Values


def test_timeouts_are_what_was_given() -> None:
    """A default that was given is not the same: it takes the place of a client's own limit."""
    timeouts = Timeouts(deadline=2, read=0.5)
    assert (timeouts.connect, timeouts.read, timeouts.deadline) == (10, 0.5, 2)
    assert repr(timeouts) == "Timeouts(read=0.5, deadline=2)"
    assert copy.copy(timeouts) == pickle.loads(pickle.dumps(timeouts)) == timeouts
    assert evolve(timeouts, read=3) == Timeouts(read=3, deadline=2)
    assert Timeouts(connect=None) == Timeouts()
    assert hash(Timeouts(read=30)) == hash(Timeouts(read=30.0))
    assert Timeouts(read=30) not in (Timeouts(), Timeouts(read=31))


def test_secrets_are_compared_by_their_text() -> None:
    """Half a character, as in undecodable bytes of the environment, is compared like any other."""
    assert Secret("a\udcff") == Secret("a\udcff") != Secret("a")


def test_what_is_no_finite_number_is_refused() -> None:
    """Whole numbers that no float comes near to among them."""
    wrong: tuple[Any, ...] = (None, "1", True, math.nan, math.inf, -math.inf, 10**400, [], 1j)
    for value in wrong:
        assert not is_number(value)
        for check in (check_positive, check_not_negative):
            with pytest.raises(ConfigurationError, match="pause"):
                check("pause", value)
    assert [check_not_negative("pause", number) for number in (0, 1.5, 2**60)] == [0, 1.5, 2**60]


# Hosts: how they are spelled, and which of them an entry names


@pytest.mark.parametrize(
    ("entry", "host", "port", "is_allowed"),
    [
        ("files.example.com", "files.example.com", 443, True),
        ("Files.EXAMPLE.com", "files.example.com", 443, True),
        ("files.example.com", "files.example.com", 8443, False),
        ("files.example.com", "xfiles.example.com", 443, False),
        ("files.example.com:8443", "files.example.com", 8443, True),
        ("files.example.com:8443", "files.example.com", 443, False),
        ("files.example.com:*", "files.example.com", 1, True),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "badexample.com", 443, False),
        ("*.example.com", "a.example.com.evil.net", 443, False),
        ("*.example.com:9000", "a.example.com", 9000, True),
        ("10.1.2.3", "10.1.2.3", 443, True),
        ("[2001:DB8:0:0::1]", "2001:db8::1", 443, True),
        ("[2001:db8::1]:9000", "2001:db8::1", 9000, True),
        ("[::ffff:a01:203]", "::ffff:10.1.2.3", 443, True),
        ("localhost", "localhost", 12345, True),
        ("127.9.9.9", "127.9.9.9", 12345, True),
        ("[::1]", "::1", 12345, True),
        ("localhost:80", "localhost", 12345, False),
        ("127.example.com", "127.example.com", 12345, False),
    ],
)
def test_an_entry_names_hosts_and_ports(
    entry: str, host: str, port: int, *, is_allowed: bool
) -> None:
    """Names match whole or at a label boundary; ports only if named, usual or of this machine."""
    assert read_host_pattern(entry).allows(host, port, 443) is is_allowed


@given(st.ip_addresses())
def test_an_ip_address_has_one_spelling(ip: object) -> None:
    """The spelling is a fixed point, and an entry names exactly its own address."""
    text = str(ip)
    host = plain_host(f"[{text}]" if ":" in text else text)
    assert host is not None
    assert plain_host(f"[{host}]" if ":" in host else host) == host
    assert read_host_pattern(f"[{text}]" if ":" in text else text).allows(host, 443, 443)


@given(st.text(max_size=30))
def test_any_text_is_an_entry_or_an_error_of_ours(text: str) -> None:
    """No other exception is raised, and a host has no character with a meaning in URLs."""
    assert not set(plain_host(text) or "") & set("/?#@%[] \\*")
    with contextlib.suppress(ConfigurationError):
        read_host_pattern(text)


def test_this_machine_is_known_by_its_very_names() -> None:
    """Names that only begin or end like them are others."""
    assert all(map(is_this_machine, ["localhost", "127.0.0.1", "127.255.0.3", "::1"]))
    others = ["a.localhost", "localhost.example", "127.example", "::ffff:127.0.0.1", "10.0.0.1"]
    assert not any(map(is_this_machine, others))


@pytest.mark.parametrize(
    ("text", "host", "origin", "is_exposed"),
    [
        ("https://A.example.", "a.example", "https://a.example.", False),
        ("HTTP://a.example:80/x", "a.example", "http://a.example", True),
        ("http://localhost.:8080", "localhost", "http://localhost.:8080", False),
        ("http://[0:0::1]", "::1", "http://[0:0::1]", False),
        ("https://[::FFFF:10.1.2.3]:1", "::ffff:10.1.2.3", "https://[::ffff:10.1.2.3]:1", False),
        ("http://127.0.0.1@a.example", "a.example", "http://a.example", True),
    ],
)
def test_an_address_is_read(text: str, host: str, origin: str, *, is_exposed: bool) -> None:
    found = read_address("base_url", text)
    assert (found.host, found.origin, found.is_exposed) == (host, origin, is_exposed)


# Variables


URL = {"INCOME_BASE_URL": "https://income.example"}
OAUTH2 = {"INCOME_CLIENT_ID": "id", "INCOME_CLIENT_SECRET": "invented"}
BASIC = {"INCOME_USERNAME": "user", "INCOME_PASSWORD": "invented"}
TOKENS = {"INCOME_AUTH_URL": "https://token.example"}


@pytest.mark.parametrize(
    ("variables", "auth", "auth_url"),
    [
        (OAUTH2, OAuth2ClientCredentials("id", "invented"), None),
        (BASIC, BasicAuth("user", "invented"), None),
        (OAUTH2 | TOKENS, OAuth2ClientCredentials("id", "invented"), "https://token.example"),
        (BASIC | {"INCOME_AUTH_URL": ""}, BasicAuth("user", "invented"), None),
        (BASIC | dict.fromkeys(OAUTH2, ""), BasicAuth("user", "invented"), None),
    ],
)
def test_either_kind_of_credentials_will_do(
    variables: dict[str, str], auth: object, auth_url: str | None
) -> None:
    """An empty variable counts as not set."""
    found = from_variables(URL | variables)
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
        (
            URL | OAUTH2 | {"INCOME_CLIENT_SECRET_FILE": "x"},
            "^INCOME_CLIENT_SECRET and INCOME_CLIENT_SECRET_FILE are both set: unset one of them$",
        ),
        (
            URL | BASIC | {"INCOME_PASSWORD_FILE": "x"},
            "^INCOME_PASSWORD and INCOME_PASSWORD_FILE are both set: unset one of them$",
        ),
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
    for name in ("base_url", "auth", "auth_url", "deprecated", "return"):
        del constructor[name]
    constructor |= get_type_hints(DeprecatedOptions)
    assert get_type_hints(ClientOptions) == constructor
    assert ClientOptions.__required_keys__ == frozenset()
    del constructor["session"]
    assert get_type_hints(SyncClientOptions) == constructor


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


# Places: which one counts, and what is said of what it leaves out


CONTENTS: Final[dict[str, tuple[str, str | None]]] = {
    "nothing": ("", "base_url"),
    "proxy": ("proxy", "base_url"),
    "address": ("base_url", "either"),
    "address and name": ("base_url client_id", "client_secret"),
    "address and secret": ("base_url client_secret", "client_id"),
    "address and file": ("base_url client_secret_file", "client_id"),
    "name": ("client_id", "base_url"),
    "secret": ("client_secret", "base_url"),
    "file": ("client_secret_file", "base_url"),
    "name and secret": ("client_id client_secret", "base_url"),
    "two kinds": ("base_url client_id username", "either"),
    "two secrets": ("base_url client_id client_secret client_secret_file", "both set"),
    "whole": ("base_url client_id client_secret", None),
    "whole by file": ("base_url client_id client_secret_file auth_url", None),
}
"""The keys that a place sets, and the key that its error names; None if a client can be made."""
ASKED: Final[dict[str, tuple[str | None, bool, dict[str, str]]]] = {
    "nothing": (None, False, {}),
    "a path": (None, True, {}),
    "a profile": ("two", False, {}),
    "a profile and a path": ("two", True, {}),
    "a profile of a variable": (None, False, {"INCOME_PROFILE": "two"}),
    "a path, with a profile of a variable": (None, True, {"INCOME_PROFILE": "two"}),
    "a profile, over one of a variable": ("two", False, {"INCOME_PROFILE": "three"}),
    "nothing, with an empty variable": (None, False, {"INCOME_PROFILE": ""}),
}
"""Profile, whether the file is named by its path, and variables besides."""
OTHERS: Final = ("nothing", "proxy", "address", "secret", "whole")
"""Contents of the places that do not count."""


def settings_of(place: str, keys: str, folder: Path) -> dict[str, str]:
    """Return what a place says: each has an address, names and secrets of its own."""
    secret = folder / f"{place}-secret"
    if "client_secret_file" in keys:
        secret.write_text(f"c4n4ry-{place}-file\n")
    texts = {
        "base_url": f"https://{place}.example",
        "auth_url": f"https://{place}-tokens.example",
        "client_id": f"{place}-id",
        "client_secret": f"c4n4ry-{place}",
        "client_secret_file": str(secret),
        "username": f"{place}-user",
        "proxy": f"http://{place}:c4n4ry@127.0.0.1:3128",
    }
    return {key: texts[key] for key in keys.split()}


def toml_of(settings: Mapping[str, str]) -> str:
    """Return settings in TOML."""
    return "".join(f'{key} = "{text}"\n' for key, text in settings.items())


@pytest.mark.shows_private("file", reason="the file is where the secret is kept")
@pytest.mark.parametrize("asked", ASKED)
def test_one_place_counts_and_is_taken_whole(asked: str, tmp_path: Path) -> None:
    """No address, name or secret of another profile is used or shown.

    A profile or a path that was asked for counts; else the environment if it sets any of address
    and credentials; else the top level of the user's own file.
    """
    profile, has_path, more = ASKED[asked]
    for environment, top, two in itertools.product(CONTENTS, CONTENTS, CONTENTS):
        said = {"shell": environment, "top": top, "two": two}
        if "profile" in asked:
            place = "two"
        elif has_path or environment in ("nothing", "proxy"):
            place = "top"
        else:
            place = "shell"
        if not {said[other] for other in said if other != place} <= {*OTHERS}:
            continue
        keys = {each: settings_of(each, CONTENTS[said[each]][0], tmp_path) for each in said}
        text = f"{toml_of(keys['top'])}[profiles.two]\n{toml_of(keys['two'])}"
        path = written(tmp_path / "config/income-client/config.toml", text)
        variables = {f"INCOME_{key.upper()}": text for key, text in keys["shell"].items()}
        home = {"XDG_CONFIG_HOME": str(tmp_path / "config"), **more}
        found = from_file(profile, path if has_path else None, variables | home)
        missing = CONTENTS[said[place]][1]
        if missing is None:
            auth = found.auth()
            auth = auth() if isinstance(auth, FileCredentials) else auth
            end = "-file" if said[place] == "whole by file" else ""
            assert auth == OAuth2ClientCredentials(f"{place}-id", f"c4n4ry-{place}{end}")
            assert found.account.base_url == f"https://{place}.example"
            assert found.account.auth_url in (None, f"https://{place}-tokens.example")
            continue
        with pytest.raises(ConfigurationError) as caught:
            found.auth()
        message = str(caught.value)
        named = f"INCOME_{missing.upper()}" if place == "shell" else missing
        assert (missing if missing in ("either", "both set") else named) in message
        where = {"shell": "INCOME_", "top": f" in {path}", "two": f" in profile two of {path}"}
        assert where[place] in message
        assert "c4n4ry" not in message
        assert ".example" not in message


ONE_PLACE: Final = "address and credentials come from one place; not used: "
KINDS: Final = "either client_id and client_secret, or username and password"
FAULTS: Final = [
    # Profile; keys of the environment, of the top level and of the profile; what is said.
    (
        (None, "", "", ""),
        "set base_url in {file}, or choose a profile of it with INCOME_PROFILE or --profile: two",
    ),
    (
        (None, "client_secret", "base_url client_id", ""),
        "set INCOME_BASE_URL, or unset INCOME_CLIENT_SECRET to use {file}",
    ),
    (
        (None, "base_url", "base_url client_id client_secret", ""),
        (
            "set either INCOME_CLIENT_ID and INCOME_CLIENT_SECRET, or INCOME_USERNAME and "
            "INCOME_PASSWORD, or unset INCOME_BASE_URL to use {file}"
        ),
    ),
    (
        ("two", "client_secret", "", "base_url client_id"),
        f"set client_secret in {{profile}} ({ONE_PLACE}INCOME_CLIENT_SECRET)",
    ),
    (
        ("two", "", "base_url client_id", "client_id client_secret"),
        f"set base_url in {{profile}} ({ONE_PLACE}base_url in {{file}}, client_id in {{file}})",
    ),
    (("two", "", "", "base_url"), f"set {KINDS}, in {{profile}}"),
    (
        ("two", "", "", "base_url client_id username"),
        f"set {KINDS}, not both, in {{profile}}",
    ),
    (
        ("two", "", "", "base_url client_id client_secret client_secret_file"),
        (
            "client_secret in {profile} and client_secret_file in {profile} are both set: "
            "unset one of them"
        ),
    ),
]


@pytest.mark.shows_private("file", reason="the file is where the secret is kept")
@pytest.mark.parametrize(("case", "message"), FAULTS)
def test_an_error_says_what_to_change_where(
    case: tuple[str | None, str, str, str], message: str, tmp_path: Path
) -> None:
    profile, *contents = case
    places = ("shell", "top", "two")
    shell, top, two = (
        settings_of(place, keys, tmp_path) for place, keys in zip(places, contents, strict=True)
    )
    text = f"{toml_of(top)}[profiles.two]\n{toml_of(two)}"
    path = written(tmp_path / "config/income-client/config.toml", text)
    variables = {f"INCOME_{key.upper()}": text for key, text in shell.items()}
    found = from_file(profile, None, variables | {"XDG_CONFIG_HOME": str(tmp_path / "config")})
    with pytest.raises(ConfigurationError) as caught:
        found.auth()
    expected = message.format(file=path, profile=f"profile two of {path}")
    assert str(caught.value) == expected


def test_where_there_is_no_file_the_environment_is_named(tmp_path: Path) -> None:
    """A file named by INCOME_CONFIG must exist, and so must a profile."""
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    path = tmp_path / "income-client/config.toml"
    with pytest.raises(ConfigurationError) as caught:
        from_file(None, None, home).auth()
    assert str(caught.value) == f"set INCOME_BASE_URL, or base_url in {path}"
    with pytest.raises(ConfigurationError) as caught:
        from_file(None, None, home | {"INCOME_CLIENT_ID": "id"}).auth()
    assert str(caught.value) == "set INCOME_BASE_URL"
    for profile, more in (("two", {}), (None, {"INCOME_CONFIG": str(path)})):
        with pytest.raises(ConfigurationError, match=r"^cannot read .*: no such file"):
            from_file(profile, None, home | more)


def test_a_home_that_cannot_be_entered_is_no_hindrance() -> None:
    """The user of a container often has no home folder."""
    home = {"XDG_CONFIG_HOME": f"/{'a' * 5000}"}
    assert from_file(None, None, URL | BASIC | home).auth() == BasicAuth("user", "invented")
    with pytest.raises(ConfigurationError, match=r"^set INCOME_BASE_URL, or base_url in "):
        from_file(None, None, home).auth()


def test_without_a_home_the_environment_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def expanduser(_: Path) -> Never:
        raise RuntimeError

    monkeypatch.setattr(Path, "expanduser", expanduser)
    assert from_file(None, None, URL | BASIC).auth() == BasicAuth("user", "invented")
    with pytest.raises(ConfigurationError, match=r"^set INCOME_BASE_URL$"):
        from_file(None, None, {}).auth()
    with pytest.raises(ConfigurationError, match=r"name the file by INCOME_CONFIG$"):
        from_file("two", None, {})


def test_a_profile_has_to_be_there(tmp_path: Path) -> None:
    """The error says where its name comes from, and which there are."""
    path = written(tmp_path / "else.toml", "[profiles.two]\n[profiles.three]\n")
    for profile, origin in (("four", ""), (None, " (of INCOME_PROFILE)")):
        message = f"{path} has no profile four{origin}; there are two, three"
        with pytest.raises(ConfigurationError) as caught:
            from_file(profile, path, {"INCOME_PROFILE": "four"})
        assert str(caught.value) == message


def test_a_file_that_does_not_count_is_not_read(tmp_path: Path) -> None:
    """A bad one is no hindrance, at the default place or where INCOME_CONFIG names it."""
    path = written(tmp_path / "income-client/config.toml", "c4n4ry", 0o644)
    for more in ({"XDG_CONFIG_HOME": str(tmp_path)}, {"INCOME_CONFIG": str(path)}):
        assert from_file(None, None, URL | BASIC | more).auth() == BasicAuth("user", "invented")
        with pytest.raises(ConfigurationError, match=f"^{path} is not TOML"):
            from_file(None, None, more)


@pytest.mark.parametrize(
    ("profile", "said", "proxy", "named"),
    [
        ("two", ("shell", "top", "two"), "two", "proxy in profile two of {file}"),
        ("two", ("shell", "top"), "shell", "INCOME_PROXY"),
        ("two", ("top",), "top", "proxy in {file}"),
        (None, ("shell", "top", "two"), "top", "proxy in {file}"),
        (None, ("shell", "two"), "shell", "INCOME_PROXY"),
        (None, ("two",), None, "proxy in {file}"),
    ],
)
def test_a_proxy_of_the_machine_is_used_beside_any_address(
    profile: str | None, said: tuple[str, ...], proxy: str | None, named: str, tmp_path: Path
) -> None:
    """The proxy of the chosen place wins, then the environment's, then that of the top level."""
    whole = "base_url client_id client_secret"
    top, two = (
        settings_of(place, f"{whole} proxy" if place in said else whole, tmp_path)
        for place in ("top", "two")
    )
    path = written(tmp_path / "file.toml", f"{toml_of(top)}[profiles.two]\n{toml_of(two)}")
    shell = settings_of("shell", "proxy" if "shell" in said else "", tmp_path)
    variables = {f"INCOME_{key.upper()}": text for key, text in shell.items()}
    found = from_file(profile, path, variables)
    expected = None if proxy is None else Secret(f"http://{proxy}:c4n4ry@127.0.0.1:3128")
    assert found.account.proxy == expected
    assert found.setting_name("proxy") == named.format(file=path)


def test_a_client_is_of_the_place_that_counts(tmp_path: Path, environ: Environ) -> None:
    """Variables and files are those of the process, as `IncomeClient` reads them."""
    text = f"{table('top.example')}[profiles.two]\n{table('two.example')}"
    path = written(tmp_path / "config/income-client/config.toml", text)
    other = written(tmp_path / "other.toml", table("other.example"))
    assert repr(IncomeClient.from_config()) == "<IncomeClient of top.example>"
    environ({"INCOME_CONFIG": str(other)})
    assert repr(IncomeClient.from_config()) == "<IncomeClient of other.example>"
    environ(BASIC | {"INCOME_BASE_URL": "https://shell.example"})
    assert repr(IncomeClient.from_config()) == "<IncomeClient of shell.example>"
    assert repr(IncomeClient.from_config(path=path)) == "<IncomeClient of top.example>"
    two = IncomeClient.from_config("two", path, concurrency=3)
    assert repr(two) == "<IncomeClient of two.example>"
    environ({"INCOME_CONFIG": str(path), "INCOME_PROFILE": "two"})
    assert repr(IncomeClient.from_config()) == "<IncomeClient of two.example>"
    assert repr(IncomeClient.from_env()) == "<IncomeClient of shell.example>"


def test_an_option_is_named_as_one_and_a_setting_by_its_place(tmp_path: Path) -> None:
    """A proxy given in code replaces the proxy of any place, and is named as an option."""
    path = written(tmp_path / "file.toml", f'proxy = "ftp://c4n4ry"\n{table("x.example")}')
    with pytest.raises(ConfigurationError, match=f"^proxy in {path} "):
        IncomeClient.from_config(path=path)
    with pytest.raises(ConfigurationError, match=r"^proxy is neither"):
        IncomeClient.from_config(path=path, proxy="ftp://elsewhere")
    IncomeClient.from_config(path=path, proxy=None)


# Files


UNUSABLE: Final = {
    "nothing": ("", 0o600, "set base_url in "),
    "no secret": ('base_url = "https://x"\nusername = "user"', 0o600, "set password in "),
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
    """No secret is in a frame of the error, whichever argument is wrong."""
    path = written(tmp_path / "file.toml", table("x.example"))
    with pytest.raises(ConfigurationError):
        make(path)


# Secrets in files


AUTHS: Final[dict[str, Callable[[str], object]]] = {
    "INCOME_CLIENT_SECRET_FILE": lambda secret: OAuth2ClientCredentials("id", secret),
    "INCOME_PASSWORD_FILE": lambda secret: BasicAuth("user", secret),
}


def kept_in(name: str, path: Path) -> Configuration:
    """Return settings whose secret is in a file."""
    user = {"INCOME_CLIENT_ID": "id"} if "CLIENT" in name else {"INCOME_USERNAME": "user"}
    return from_variables(URL | user | {name: str(path)})


def auth_of(found: Configuration) -> FileCredentials:
    """Return what reads the file."""
    auth = found.auth()
    assert isinstance(auth, FileCredentials)
    return auth


@pytest.mark.shows_private("file", reason="the file is where the secret is kept")
@pytest.mark.parametrize("name", AUTHS)
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_secret_is_read_from_its_file_each_time(name: str, end: str, tmp_path: Path) -> None:
    """The end of its line is no part of it; a link to it may be replaced, as containers do."""
    link, first, second = tmp_path / "secret", tmp_path / "first", tmp_path / "second"
    first.write_bytes(f"{CANARY} {end}".encode())
    second.write_bytes(f"ínvented-too{end}".encode())
    link.symlink_to(first)
    found = kept_in(name, link)
    auth = auth_of(found)
    assert auth() == AUTHS[name](f"{CANARY} ")
    assert CANARY not in f"{found!r} {auth!r} {auth()!r} {found.make_client(IncomeClient, {})!r}"
    link.unlink()
    with pytest.raises(SecretFileError, match=r"^cannot read .*/secret: no such file"):
        auth()
    link.symlink_to(second)
    assert auth() == AUTHS[name]("ínvented-too")


MARK: Final = "\ufeff".encode()
"""The byte order mark that editors and shells of Windows put before a text."""


@pytest.mark.shows_private("file", reason="the file is where the secret is kept")
@pytest.mark.parametrize("name", AUTHS)
def test_a_byte_order_mark_is_no_part_of_a_secret(name: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(MARK + CANARY.encode() + b"\r\n")
    assert auth_of(kept_in(name, path))() == AUTHS[name](CANARY)


def test_a_byte_order_mark_is_no_part_of_the_settings(tmp_path: Path) -> None:
    path = written(tmp_path / "file.toml", MARK.decode() + table("x"))
    assert from_file(None, path, {}).account.base_url == "https://x"


@pytest.mark.parametrize("char", ["\ufeff", "\u200b", "\u00a0", "\u202e"])
@pytest.mark.parametrize("auth", [BasicAuth, OAuth2ClientCredentials])
def test_an_invisible_character_in_a_name_is_refused(auth: Any, char: str) -> None:
    """The service would say only that the credentials are wrong."""
    with pytest.raises(ConfigurationError, match="holds an invisible character"):
        auth(f"user{char}", "invented")


@pytest.mark.parametrize("auth", [BasicAuth, OAuth2ClientCredentials])
def test_a_byte_order_mark_in_a_secret_is_refused(auth: Any) -> None:
    with pytest.raises(ConfigurationError, match="holds a byte order mark"):
        auth("user", "\ufeffinvented")


UNUSABLE_SECRETS: Final[dict[str, tuple[bytes | None, str]]] = {
    "missing": (None, "cannot read {path}: no such file or directory"),
    "empty": (b"", "{path} is empty"),
    "only the end of a line": (b"\r\n", "{path} is empty"),
    "not text": (b"c4n4ry\xff", "{path} is not text in UTF-8"),
    "two lines": (b"c4n4ry\nc4n4ry\n",
                  "{path} holds a character that a Basic credential cannot carry"),
    "a NUL": (b"c4n4ry\0", "{path} holds a character that a Basic credential cannot carry"),
    "too long": (b"c4n4ry" * 20_000, "{path} is longer than 64 KiB"),
}  # fmt: skip


@pytest.mark.shows_private("file", reason="the file is where the secret is kept")
@pytest.mark.parametrize("name", AUTHS)
@pytest.mark.parametrize("what", UNUSABLE_SECRETS)
def test_an_unusable_file_of_a_secret_is_an_error(what: str, name: str, tmp_path: Path) -> None:
    """The message names the setting and the file, and nothing of the file's content."""
    content, fault = UNUSABLE_SECRETS[what]
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        kept_in(name, path).auth()
    expected = f"{name} cannot be used: {fault.format(path=path)}"
    assert (str(caught.value), caught.value.argument) == (expected, name[7:].lower())


def test_a_folder_is_no_secret_and_a_wrong_name_beside_a_file_is_named(tmp_path: Path) -> None:
    path = str(written(tmp_path / "secret", "invented\n"))
    for name, file, said in (
        ("user", str(tmp_path), "^INCOME_PASSWORD_FILE cannot be used: "),
        ("a:b", path, "^INCOME_USERNAME holds a character"),
    ):
        variables = URL | {"INCOME_USERNAME": name, "INCOME_PASSWORD_FILE": file}
        with pytest.raises(ConfigurationError, match=said):
            from_variables(variables).auth()


def test_a_profile_names_the_file_of_its_secret(tmp_path: Path) -> None:
    """Relative to its own folder; others may read it, as it holds no secret itself."""
    written(tmp_path / "secrets/two", "invented\n", 0o644)
    text = (
        '[profiles.two]\nbase_url = "https://x"\nclient_id = "id"\n'
        'client_secret_file = "secrets/two"\n'
    )
    path = written(tmp_path / "file.toml", text, 0o644)
    found = from_file("two", path, {})
    assert auth_of(found)() == OAuth2ClientCredentials("id", "invented")
    assert (
        found.setting_name("client_secret_file") == f"client_secret_file in profile two of {path}"
    )
    (tmp_path / "secrets/two").unlink()
    with pytest.raises(ConfigurationError, match=r"^client_secret_file in .*: cannot read .*/two"):
        found.auth()


async def test_a_client_follows_the_file_of_its_secret(tmp_path: Path, environ: Environ) -> None:
    """While it cannot be read, the error names it and can be retried."""
    path = written(tmp_path / "secret", "invented\n")
    new = BasicAuth("user", "invented-too").authorization().reveal()
    accepted = BasicAuth("user", "invented").authorization().reveal()

    def answer(request: Request) -> Reply:
        return EMPTY_PAGE if request.authorization == accepted else UNAUTHORIZED

    async with ScriptedServer(answer) as server:
        environ({"INCOME_BASE_URL": server.url, "INCOME_USERNAME": "user"})
        environ({"INCOME_PASSWORD_FILE": str(path)})
        async with IncomeClient.from_env() as client:
            await client.check()
            accepted = new
            path.unlink()
            with pytest.raises(
                TokenError, match=r"has failed: cannot read .*/secret: no"
            ) as caught:
                await client.check()
            assert caught.value.retryable
            written(path, "invented-too\n")
            await client.check()


# The proxy and the authorities of the environment


ONCE: Final = RetryPolicy(max_attempts=1)


def variables_of(service: Emulator) -> dict[str, str]:
    """Return the address and the credentials of a service."""
    user, password = service.basic.username, service.basic.password.reveal()
    known = {"INCOME_USERNAME": user, "INCOME_PASSWORD": password}
    return {"INCOME_BASE_URL": service.url, **known}


async def test_the_proxy_is_that_of_the_environment_unless_one_is_given(environ: Environ) -> None:
    """None as well, for no proxy at all."""
    async with Emulator(3) as service, proxying(service.url) as (port, came):
        proxy, away = f"http://127.0.0.1:{port}", "http://127.0.0.1:1"
        given: tuple[tuple[str, dict[str, Any], bool], ...] = (
            (proxy, {}, True),
            (away, {"proxy": proxy}, True),
            (away, {"proxy": None}, False),
        )
        for variable, options, is_used in given:
            came.clear()
            environ(variables_of(service) | {"INCOME_PROXY": variable})
            async with IncomeClient.from_env(**options) as client:
                assert len((await client.get_application_page()).applications) == 3
            assert any(b"/v1/income/applications" in piece for piece in came) is is_used


async def test_files_come_over_tls_of_the_same_authorities(
    environ: Environ, tmp_path: Path
) -> None:
    """A policy with a context of its own keeps to it."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = authority.issue_cert("127.0.0.1")
    policy = DownloadPolicy(allowed_hosts=("127.0.0.1",), allow_private_networks=True)
    own = evolve(policy, ssl=ssl.create_default_context())
    async with Emulator(1) as service, terminating(issued, service.files_url) as port:
        environ(variables_of(service) | {"INCOME_CA_FILE": str(tmp_path / "ca.pem")})
        async with IncomeClient.from_env(downloads=policy) as client:
            (entry, *_) = (await client.get_documents(service.world.ids[0])).all()
            there = entry.document.url.replace(service.files_url, f"https://127.0.0.1:{port}")
            document = evolve(entry.document, url=there)
            file = await client.download(document, tmp_path / "file")
            assert (tmp_path / "file").stat().st_size == file.size
        async with IncomeClient.from_env(downloads=own, retry=ONCE) as client:
            with pytest.raises(DownloadError):
                await client.download(document, tmp_path / "other")


def test_an_unusable_file_of_authorities_is_an_error(environ: Environ, tmp_path: Path) -> None:
    """The variable is named; with a context of the caller's the file is not read at all."""
    (tmp_path / "empty").touch()
    context = ssl.create_default_context()
    for path in ("/nowhere", str(tmp_path), str(tmp_path / "empty"), "a\udcff" * 5000):
        proxy = {"INCOME_PROXY": f"http://u:{CANARY}@127.0.0.1:1"}
        environ(URL | BASIC | proxy | {"INCOME_CA_FILE": path})
        with pytest.raises(ConfigurationError, match=r"^INCOME_CA_FILE: "):
            IncomeClient.from_env()
        IncomeClient.from_env(ssl=context)
