"""Settings: where they come from, which win, what is wrong with them, and where secrets go."""

import os
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from income_client import ConfigurationError
from income_client.cli.connection import Connection, read_settings
from income_client.emulator import Fault
from income_client.testing import IncomeService
from tests.cli.commands import Form
from tests.support.cli import Cli, complaints, with_basic
from tests.support.processes import Terminal, beside
from tests.support.proxies import terminating
from tests.support.server import Request, ScriptedServer, in_turn, reply

LIST: Final = ("applications", "-q")
NOWHERE: Final = "http://127.0.0.1:1"
OAUTH2: Final = {
    "INCOME_BASE_URL": NOWHERE,
    "INCOME_CLIENT_ID": "somebody",
    "INCOME_CLIENT_SECRET": "invented",
}
HINT: Final = "income-client doctor"
pytestmark = pytest.mark.income_service(applications=3)


def written(path: Path, *lines: str, mode: int = 0o600) -> Path:
    """Write a configuration file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8", "surrogateescape")
    path.chmod(mode)
    return path


def keys_of(service: IncomeService, **instead: str) -> list[str]:
    """Return the lines of a file that lead to a service."""
    said = {
        "base_url": service.url,
        "client_id": service.oauth2.client_id,
        "client_secret": service.oauth2.client_secret.reveal(),
        **instead,
    }
    return [f'{key} = "{text}"' for key, text in said.items() if text]


# Where settings come from


def test_a_file_is_enough(cli: Cli, income_service: IncomeService, tmp_path: Path) -> None:
    keys = keys_of(income_service)
    path = written(tmp_path / "income-client/config.toml", *keys)
    written(tmp_path / "home/.config/income-client/config.toml", *keys)
    for arguments, env in (
        (("--config", str(path)), {}),
        ((), {"INCOME_CONFIG": str(path)}),
        ((), {"XDG_CONFIG_HOME": str(tmp_path)}),
        ((), {"XDG_CONFIG_HOME": "relative"}),
        ((), {}),
    ):
        ran = cli(*LIST, *arguments, env=env)
        assert (ran.status, ran.stderr) == (0, "")
        assert sorted(ran.lines) == sorted(income_service.ids)


@pytest.mark.shows_private("file", reason="the file is where the secret is kept")
@pytest.mark.parametrize("command", ["applications", "doctor"])
def test_a_secret_may_be_in_a_file(command: str, shell: Cli, tmp_path: Path) -> None:
    """Then nobody is asked for it, at a terminal either."""
    secret = shell.service.oauth2.client_secret.reveal()
    path = written(tmp_path / "secret", secret, mode=0o444)
    env = {"INCOME_CLIENT_SECRET": "", "INCOME_CLIENT_SECRET_FILE": str(path)}
    ran = shell(command, env=env, terminal=Terminal())
    assert ran.status == 0
    assert secret not in ran.screen


# Where secrets go


def said_in(place: str) -> st.SearchStrategy[dict[str, str]]:
    """Draw what the environment or a file says, addresses as A and B."""
    names = st.sampled_from(["one", "two"])
    texts: dict[str, st.SearchStrategy[str]] = {
        "base_url": st.sampled_from(["A", "B"]),
        "client_id": names,
        "client_secret": st.just(f"{place}-secret"),
        "username": names,
        "password": st.just(f"{place}-password"),
    }
    return st.fixed_dictionaries({}, optional=texts)


def _credentials(request: Request) -> tuple[str, str]:
    """Return the name and the secret that came with a request."""
    if request.authorization.startswith("Basic "):
        name, _, secret = b64decode(request.authorization[6:]).decode().partition(":")
        return name, secret
    form = parse_qs(request.body.decode())
    return form["client_id"][0], form["client_secret"][0]


@pytest.fixture
def servers() -> Iterator[dict[str, ScriptedServer]]:
    """Two servers that refuse everybody, and remember who came."""
    with (
        beside(ScriptedServer(in_turn(reply(401)))) as one,
        beside(ScriptedServer(in_turn(reply(401)))) as other,
    ):
        yield {"A": one, "B": other}


@given(places=st.tuples(said_in("environment"), said_in("file")))
def test_a_secret_goes_only_where_it_was_meant_to_go(
    places: tuple[dict[str, str], dict[str, str]],
    servers: dict[str, ScriptedServer],
    cli: Cli,
    tmp_path: Path,
) -> None:
    """Each secret that is sent was set beside the address and the name it is sent to and with."""
    for server in servers.values():
        server.requests.clear()
    address = {name: server.url for name, server in servers.items()}
    texts = [{key: address.get(text, text) for key, text in each.items()} for each in places]
    path = written(tmp_path / "config", *(f'{key} = "{text}"' for key, text in texts[1].items()))
    env = {f"INCOME_{key.upper()}": text for key, text in texts[0].items()}
    ran = cli(*LIST, env={**env, "INCOME_CONFIG": str(path)})
    assert ran.status in (2, 4)
    assert not any(each in ran.stderr for each in ("-secret", "-password"))
    origin = {"environment": texts[0], "file": texts[1]}
    for server in servers.values():
        for sent_name, secret in map(_credentials, server.requests):
            whose = origin[secret.partition("-")[0]]
            key = "client_id" if secret.endswith("-secret") else "username"
            assert (whose["base_url"], whose[key]) == (server.url, sent_name)


# What is missing or invalid


TOP: Final = ('base_url = "https://one.example"', 'client_id = "id"', 'client_secret = "canary"')
OTHER: Final = ("[profiles.two]", 'base_url = "https://two.example"')
OPEN: Final = "can be read by others and holds a secret: chmod 600 '{file}'"
REFUSED: Final[dict[str, tuple[tuple[str, ...], int, str]]] = {
    "others read": (TOP, 0o604, OPEN),
    "a group reads": (TOP, 0o640, OPEN),
    "others read a proxy": (('proxy = "http://user:canary@127.0.0.1:1"',), 0o644, OPEN),
    "others read a profile": (("[profiles.x]", 'password = "canary"'), 0o644, OPEN),
    "anybody writes": (TOP[:1], 0o606, "can be changed by anybody: chmod o-w '{file}'"),
    "a group writes": (
        ('client_secret_file = "canary"',),
        0o664,
        "can be changed by its group and names the file of a secret: chmod g-w '{file}'",
    ),
    "a group writes a profile": (
        ("[profiles.x]", 'password_file = "canary"'), 0o660, "names the file of a secret"
    ),
    "no TOML": (('client_secret = "canary\0"',), 0o600, "TOML (line 1, column 24)"),
    "too deep": (("x = " + "[" * 5000,), 0o600, "nested too deeply"),
    "too long": (("#" * 70_000,), 0o600, "64 KiB"),
    "unknown key": (('canary_Secret = "x"',), 0o600, "unknown key"),
    "harmful key": (('"\\u001b[31m" = 1',), 0o600, "unknown key"),
    "list": (('client_secret = ["canary"]',), 0o600, "client_secret"),
    "no profiles": (('profiles = "canary"',), 0o600, "no profile two"),
    "unknown key of a profile": (
        ("[profiles.two]", 'url = "canary"'), 0o600, "unknown key url in profile two"
    ),
    "address of a profile": ((*TOP, *OTHER), 0o600, "client_secret, or username and password, in"),
    "half a profile": (
        (*TOP, *OTHER, 'client_id = "id-2"'), 0o600, "set client_secret in profile two of "
    ),
}  # fmt: skip
"""Files that are refused: their lines, their mode, and what is said."""


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_is_refused_is_named_and_not_shown(case: str, tmp_path: Path) -> None:
    """The file, the place and the key are named, with the command that helps; no value is."""
    lines, mode, reason = REFUSED[case]
    path = written(tmp_path / "my config", *lines, mode=mode)
    link = tmp_path / "my link"
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(ConfigurationError) as caught:
            read_settings(Connection(config=name, profile="two"))
        said = str(caught.value)
        assert str(name) in said or "profile two" in said
        assert reason.format(file=name) in said
        assert "canary" not in said
        assert "\x1b" not in said


def test_what_is_no_file_of_the_user_is_refused(cli: Cli) -> None:
    os.mkfifo(cli.folder / "pipe", 0o600)
    (cli.folder / "folder").mkdir()
    reasons = {"pipe": "is not a regular file", "folder": "directory", "missing": "no such file"}
    if os.geteuid() == 0:  # only a superuser gives files away
        os.chown(written(cli.folder / "foreign", *TOP), 65534, -1)
        os.chown(written(cli.folder / "names", 'password_file = "canary"', mode=0o644), 65534, -1)
        reasons["foreign"] = "belongs to somebody else and holds a secret"
        reasons["names"] = "belongs to somebody else and names the file of a secret"
    for name, reason in reasons.items():
        ran = cli(*LIST, "--config", name)
        assert (ran.status, ran.stdout) == (2, "")
        assert name in ran.stderr
        assert reason in ran.stderr


@pytest.mark.shows_private("file", reason="the file is where the secret is kept")
def test_a_file_without_a_secret_may_be_read_by_all(
    cli: Cli, income_service: IncomeService, tmp_path: Path
) -> None:
    """The mode of the file that it names is its owner's choice."""
    written(tmp_path / "secret", income_service.oauth2.client_secret.reveal(), mode=0o444)
    keys = keys_of(income_service, client_secret="", client_secret_file="secret")
    path = written(tmp_path / "file", *keys, mode=0o644)
    ran = cli(*LIST, "--config", str(path))
    assert (ran.status, ran.stderr, len(ran.lines)) == (0, "", 3)


# Services that cannot be reached


PROXY: Final = {"INCOME_PROXY": "http://user:hush@127.0.0.1:2"}


@pytest.mark.income_service(applications=1)
@pytest.mark.usefixtures("without_pauses")
def test_a_service_that_is_down_is_named_once(any_reader: str, prepared: Cli) -> None:
    """Doctor reports it as a finding."""
    proxy = PROXY if any_reader < "e" else {}
    env = {**OAUTH2, **proxy, "INCOME_BASE_URL": f"{NOWHERE}/path/of/it"}
    ran = prepared(*Form(any_reader).line(prepared.service), env=env)
    if any_reader == "doctor":
        assert (ran.status, "127.0.0.1:1" in ran.stdout) == (1, True)
        return
    assert (ran.status, ran.stdout) == (1, "")
    (said,) = (line for line in ran.stderr.splitlines() if "127.0.0.1" in line)
    assert said.endswith(" at 127.0.0.1:1" + (" through the proxy 127.0.0.1:2" if proxy else ""))
    assert not any(word in ran.stderr for word in ("path/of/it", "hush", "invented"))


@pytest.mark.usefixtures("without_pauses")
def test_the_proxy_of_this_machine_is_for_every_address(cli: Cli, tmp_path: Path) -> None:
    """The proxy is used beside the address of a file, too."""
    keys = ('base_url = "https://x.example"', 'client_id = "id"', 'client_secret = "invented"')
    path = written(tmp_path / "config", *keys)
    ran = cli(*LIST, "--config", str(path), env={"INCOME_PROXY": NOWHERE})
    assert ran.status == 1
    assert "through the proxy 127.0.0.1:1" in ran.stderr


@pytest.mark.usefixtures("without_pauses")
def test_a_token_endpoint_that_is_down_is_named(cli: Cli) -> None:
    ran = cli(*LIST, env={**OAUTH2, "INCOME_AUTH_URL": "http://[::1]:2/path"})
    assert (ran.status, ran.stdout) == (1, "")
    assert ran.stderr.startswith("income-client: token: ")
    assert ran.stderr.endswith(" at [::1]:2\n")


@pytest.mark.usefixtures("without_pauses")
@pytest.mark.parametrize(("status", "exit_status"), [(403, 4), (503, 1)])
def test_a_person_learns_of_doctor_once(status: int, exit_status: int, shell: Cli) -> None:
    shell.service.faults.add(Fault("status", path="/v1/*", status=status, times=None))
    shown = shell(*LIST, terminal=Terminal())
    assert shown.status == exit_status
    assert shown.screen.count(HINT) == 1
    assert HINT in shown.screen.splitlines()[-1]
    assert HINT not in shell(*LIST).stderr


@pytest.mark.usefixtures("without_pauses")
def test_an_account_that_gets_no_token_is_refused(any_reader: str, prepared: Cli) -> None:
    """403 of the token endpoint is about the account: said once, with the status of a refusal."""
    prepared.service.faults.add(Fault("status", path="/token", status=403, times=None))
    ran = prepared(*Form(any_reader).line(prepared.service))
    assert ran.status == 4
    assert (ran.stdout + ran.stderr).count("token: 403") == 1


@pytest.mark.parametrize("top", [(), ('base_url = "https://income.example"',)], ids=len)
def test_profiles_that_exist_are_named(top: tuple[str, ...], cli: Cli) -> None:
    path = cli.folder / "home/.config/income-client/config.toml"
    path.parent.mkdir(parents=True)
    keys = ('base_url = "https://x.example"', 'client_id = "x"', 'client_secret = "canary"')
    written(path, *top, "[profiles.staging]", *keys, "[profiles.production]", *keys)
    ran = cli(*LIST)
    assert (ran.status, ran.stdout) == (2, "")
    assert "with INCOME_PROFILE or --profile: staging, production" in ran.stderr
    assert "canary" not in ran.stderr
    # Without a file, a missing address comes with first steps.
    path.unlink()
    ran = cli(*LIST)
    assert (ran.status, ran.stdout, "profile" in ran.stderr) == (2, "", False)
    for words in ("INCOME_BASE_URL", "income-client configure", "income-client emulate"):
        assert words in ran.stderr


# Proxies and private authorities


@pytest.mark.shows_private("file", reason="credentials are kept in it")
@pytest.mark.usefixtures("without_pauses")
def test_a_private_authority_is_trusted_where_it_is_named(
    cli: Cli, shell: Cli, tmp_path: Path
) -> None:
    """By a variable or a file, relative to that file or below the home; else nothing is sent."""
    authority = trustme.CA()
    for folder in (tmp_path / "folder", tmp_path / "home"):
        folder.mkdir()
        authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    with beside(terminating(authority.issue_cert("localhost"), shell.service.url)) as port:
        there = f"https://localhost:{port}"
        variables = {"INCOME_BASE_URL": there, "INCOME_CA_FILE": str(tmp_path / "folder/ca.pem")}
        assert shell(*LIST, env=variables).status == 0
        for place in ("ca.pem", "~/ca.pem"):
            keys = keys_of(shell.service, base_url=there, ca_file=place)
            path = written(tmp_path / "folder/config", *keys)
            assert cli(*LIST, "--config", str(path)).status == 0
        asked = len(shell.service.requests)
        ran = shell(*LIST, env={"INCOME_BASE_URL": there})
        assert ran.status == 1
        assert f"at localhost:{port}" in ran.stderr
        assert len(shell.service.requests) == asked


def test_the_usual_authorities_stay_trusted(shell: Cli) -> None:
    """A file of authorities adds to those of the machine."""
    usual = trustme.CA()
    usual.cert_pem.write_to_path(str(shell.folder / "usual.pem"))
    trustme.CA().cert_pem.write_to_path(str(shell.folder / "other.pem"))
    files = {"SSL_CERT_FILE": "usual.pem", "INCOME_CA_FILE": "other.pem"}
    with beside(terminating(usual.issue_cert("localhost"), shell.service.url)) as port:
        env = {**files, "INCOME_BASE_URL": f"https://localhost:{port}"}
        assert shell(*LIST, env=env).status == 0


# Refused credentials


@pytest.mark.income_service(applications=30)
def test_refused_credentials_are_status_4(any_reader: str, prepared: Cli) -> None:
    """The first refusal ends the command, since no other application could be read."""
    line = Form(any_reader).line(prepared.service)
    secrets = {"INCOME_CLIENT_SECRET": "invented"}
    basic = with_basic(prepared.service, INCOME_PASSWORD="invented")
    before = len(prepared.service.requests)
    for env in (secrets, basic):
        ran = prepared(*line, env=env)
        assert ran.status == 4
        assert "401" in ran.words
        assert "invented" not in ran.words
        # A poller of another account warns of the checkpoint that it resumes from.
        most = 2 if any_reader in ("doctor", "export", "poll") else 1
        assert len(complaints(ran).splitlines()) <= most
        assert len(prepared.service.requests) - before < 30
