"""``configure``: address and credentials are asked for, tried and saved for their owner alone."""

import os
import stat
import tomllib
from pathlib import Path
from typing import Final

import pytest

from income_client.system.disk import locked_folder
from income_client.testing import IncomeService
from tests.support.cli import Cli, Running
from tests.support.processes import Terminal, beside, environment, started
from tests.support.server import EMPTY_PAGE, Reply, Request, ScriptedServer

NOWHERE: Final = "http://127.0.0.1:1"
NEW: Final = ("--base-url", NOWHERE, "--client-id", "new", "--no-check")
pytestmark = pytest.mark.income_service(applications=3)


@pytest.fixture
def file(cli: Cli) -> Path:
    """Path of the configuration file unless an option names another."""
    return cli.folder / "home" / ".config" / "income-client" / "config.toml"


def options_of(service: IncomeService, kind: str = "oauth2") -> tuple[tuple[str, ...], str]:
    """Return what a service is configured with: options, and the secret."""
    if kind == "basic":
        basic = service.basic
        return ("--base-url", service.url, "--username", basic.username), basic.password.reveal()
    oauth2 = service.oauth2
    options = ("--base-url", service.url, "--client-id", oauth2.client_id)
    return options, oauth2.client_secret.reveal()


@pytest.mark.parametrize(
    ("kind", "profile", "env"),
    [
        ("basic", ("--profile", "staging"), {}),
        ("oauth2", ("--profile", "my own.1"), {}),
        ("oauth2", (), {"INCOME_PROFILE": "staging"}),
    ],
)
def test_what_is_saved_is_read(
    kind: str, profile: tuple[str, ...], env: dict[str, str], shell: Cli, cli: Cli, file: Path
) -> None:
    """By other commands, with the same option or variable; only its owner can read the file."""
    options, secret = options_of(shell.service, kind)
    ran = cli("configure", *options, *profile, stdin=f"{secret}\n", env=env)
    assert (ran.status, ran.stdout) == (0, "")
    assert "saved in ~/.config/income-client/config.toml" in ran.stderr
    is_staging = "staging" in (*profile, *env.values())
    assert ("use it with --profile staging" in ran.stderr) is is_staging
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert shell.service.requests.count("list_applications") == 1
    assert sorted(cli("applications", "-q", *profile, env=env).lines) == sorted(shell.service.ids)


@pytest.mark.parametrize("is_interrupted", [True, False], ids=["Ctrl-C", "Ctrl-D"])
def test_a_person_may_leave(is_interrupted: bool, cli: Cli, file: Path) -> None:
    def leave(running: Running) -> None:
        running.stderr.wait_for("Address of the service: ")
        if is_interrupted:
            running.interrupt()
        else:
            running.write("\x04")
            running.wait()

    ran = cli("configure", terminal=Terminal(), during=leave)
    assert ran.status == (130 if is_interrupted else 2)
    assert "Traceback" not in ran.screen
    assert not file.parent.exists()


LAYOUT: Final = """\
# ours
base_url = 'https://one.example'   # production
client_id = "one"
anything = ["of", "another version"]

# for tests; ask Zoë
[ profiles."staging" ]  # since May
    username = "two"
password = 'c4n4ry'"""


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n# the last line"])
def test_a_profile_is_added_at_the_end(end: str, cli: Cli, file: Path) -> None:
    """The rest of the file stays unchanged, byte for byte."""
    file.parent.mkdir(parents=True)
    before = f"{LAYOUT}{end}".encode()
    file.write_bytes(before)
    ran = cli("configure", *NEW, "--profile", "näw one.1", stdin='say "so"\\')
    assert ran.status == 0
    after = file.read_bytes()
    assert after.startswith(before)
    meant = tomllib.loads(LAYOUT)
    new = {"base_url": NOWHERE, "client_id": "new", "client_secret": 'say "so"\\'}
    meant["profiles"]["näw one.1"] = new
    assert tomllib.loads(after.decode()) == meant
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        (LAYOUT, "staging"),
        (LAYOUT, None),
        ("profiles = {staging = {base_url = 'a'}}\n", "staging"),
        ("[profiles]\nstaging.base_url = 'a'\n", "staging"),
        ("[profiles]\nstaging = 1\n", "staging"),
    ],
)
def test_what_a_file_has_is_changed_by_hand(
    text: str, profile: str | None, cli: Cli, file: Path
) -> None:
    """The lines to write are on standard output, without a secret; nobody is asked for it."""
    file.parent.mkdir(parents=True)
    file.write_text(text, "utf-8")
    names = () if profile is None else ("--profile", profile)
    for more, said in (
        (("--username", "new"), {"username": "new", "password": "..."}),
        (("--client-id", "new"), {"client_id": "new", "client_secret": "..."}),
        (("--secret-file", "/secret"), {"client_id": "...", "client_secret_file": "/secret"}),
    ):
        ran = cli("configure", "--base-url", NOWHERE, *more, *names, stdin="c4n4ry\n")
        assert (ran.status, "by hand" in ran.stderr) == (2, True)
        shown = tomllib.loads(ran.stdout)
        section = shown if profile is None else shown["profiles"][profile]
        assert section == {"base_url": NOWHERE, **said}
        assert "c4n4ry" not in ran.words
        assert file.read_text("utf-8") == text


@pytest.mark.parametrize(
    "text",
    [
        "base_url = ", "base_url = " + "[" * 5000, "profiles = 1\n", "[[profiles]]\nx = 1\n",
        'profiles = {y = {base_url = "a"}}\n',
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_added_to_is_left_alone(text: str, cli: Cli, file: Path) -> None:
    """The file is malformed, or has another value in place of the profile's table."""
    file.parent.mkdir(parents=True)
    file.write_text(text, "utf-8")
    ran = cli("configure", *NEW, "--profile", "x", stdin="secret\n")
    assert (ran.status, ran.stdout, "config.toml" in ran.stderr) == (2, "", True)
    assert file.read_text("utf-8") == text
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("text", ["", "# nothing yet", "\n\n"])
def test_a_file_without_settings_gets_them(text: str, cli: Cli, file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text, "utf-8")
    assert cli("configure", *NEW, stdin="secret\n").status == 0
    expected = {"base_url": NOWHERE, "client_id": "new", "client_secret": "secret"}
    assert tomllib.loads(file.read_text("utf-8")) == expected
    assert file.read_text("utf-8").startswith(text)


def test_what_does_not_work_is_not_saved(
    cli: Cli, file: Path, income_service: IncomeService
) -> None:
    options, _ = options_of(income_service)
    assert cli("configure", *options, stdin="wrong\n").status == 4
    down = ("--base-url", NOWHERE, *options[2:])
    ran = cli("configure", *down, stdin="any\n")
    assert (ran.status, "127.0.0.1:1" in ran.stderr) == (1, True)
    assert not file.exists()
    assert not [*file.parent.iterdir()]
    # Root would put the settings in the place of a device, and a pipe would never end.
    pipe = cli.folder / "pipe"
    os.mkfifo(pipe)
    ran = cli("configure", *NEW, "--config", str(pipe), stdin="secret\n")
    assert (ran.status, "not a regular file" in ran.stderr) == (2, True)
    assert pipe.is_fifo()
    # A file that is too long could not be read, and would take all profiles with it.
    assert cli("configure", *NEW, stdin="secret\n").status == 0
    before = file.read_text("utf-8")
    ran = cli("configure", *NEW, "--profile", "x", stdin="x" * 70_000)
    assert (ran.status, "64 KiB" in ran.stderr) == (2, True)
    assert file.read_text("utf-8") == before


def test_two_at_once_lose_nothing(cli: Cli, file: Path) -> None:
    """Profiles of both are saved; one profile is saved by the first of them."""
    options = ("configure", *NEW, "--profile")
    file.parent.mkdir(parents=True)
    env = {**environment(), "HOME": str(cli.folder / "home")}
    for first, second, status, said in (
        ("one", "two", 0, "saved in"),
        ("three", "three", 2, "changed meanwhile"),
    ):
        line, terminal = (*options, second), Terminal()
        with started(*line, env=env, terminal=terminal, owns_terminal=True) as process:
            process.stderr.wait_for("(not shown): ")
            assert cli(*options, first, stdin="of the first\n").status == 0
            process.write("of the second\n")
            ran = process.wait()
        assert (ran.status, said in ran.screen) == (status, True)
    profiles = tomllib.loads(file.read_text("utf-8"))["profiles"]
    secrets = {name: profile["client_secret"] for name, profile in profiles.items()}
    first = "of the first"
    assert secrets == {"one": first, "two": "of the second", "three": first}
    with locked_folder(file.parent):
        late = cli(*options, "four", stdin="other\n")
    assert (late.status, "another configure" in late.stderr) == (2, True)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_an_edit_during_the_request_is_kept(cli: Cli, file: Path) -> None:
    def answer(_: Request) -> Reply:
        file.write_text("# edited", "utf-8")
        return EMPTY_PAGE

    with beside(ScriptedServer(answer)) as server:
        ran = cli("configure", "--base-url", server.url, "--username", "new", stdin="secret\n")
    assert (ran.status, "changed meanwhile" in ran.stderr) == (2, True)
    assert file.read_text("utf-8") == "# edited"
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_settings_of_the_environment_that_come_first_are_named(cli: Cli, file: Path) -> None:
    env = {"INCOME_BASE_URL": NOWHERE, "INCOME_PROXY": NOWHERE}
    ran = cli("configure", *NEW, stdin="secret\n", env=env)
    assert ran.status == 0
    assert ran.stderr.endswith("the environment is used in place of it: INCOME_BASE_URL\n")
    assert file.exists()
    ran = cli("configure", *NEW, "--profile", "x", stdin="secret\n", env=env)
    assert (ran.status, "INCOME_BASE_URL" in ran.stderr) == (0, False)


@pytest.mark.parametrize("kind", ["oauth2", "basic"])
def test_a_file_holds_the_secret(
    kind: str, cli: Cli, file: Path, income_service: IncomeService
) -> None:
    """The file's path is saved, and the file is read for each call; an unusable file is refused."""
    options, secret = options_of(income_service, kind)
    key = "password" if kind == "basic" else "client_secret"
    own = cli.folder / "secret"
    for content, fault in ((None, "cannot read"), ("", "is empty")):
        if content is not None:
            own.write_text(content)
        ran = cli("configure", *options, "--secret-file", "secret", "--no-check")
        assert (ran.status, fault in ran.stderr) == (2, True)
        assert "--secret-file cannot be used: " in ran.stderr
        assert not file.exists()
    own.write_text(f"{secret}\n")
    assert cli("configure", *options, "--secret-file", "secret", stdin="another").status == 0
    saved = tomllib.loads(file.read_text("utf-8"))
    assert (saved[f"{key}_file"], key in saved) == (str(own), False)
    assert cli("applications", "-q").status == 0
    own.write_text("another")
    assert cli("applications", "-q").status == 4


def test_a_file_that_is_a_link_to_itself_is_refused_before_a_secret_is_asked_for(cli: Cli) -> None:
    """Nobody types a secret for a file that cannot be written."""
    loop = cli.folder / "loop.toml"
    loop.symlink_to(loop)
    ran = cli("configure", "--config", str(loop), *NEW, stdin="")
    assert ran.status == 2
    assert "Traceback" not in ran.words


def test_settings_without_a_profile_are_added_before_the_profiles(cli: Cli, file: Path) -> None:
    """Behind them they would be part of the last one; what is there stays, byte for byte."""
    assert cli("configure", *NEW, "--profile", "staging", stdin="first\n").status == 0
    before = file.read_bytes()
    assert cli("configure", *NEW, stdin="second\n").status == 0
    assert file.read_bytes().endswith(b"\n" + before)
    table = tomllib.loads(file.read_text())
    assert table["client_secret"] == "second"
    assert table["profiles"]["staging"]["client_secret"] == "first"
    assert cli("configure", *NEW, stdin="third\n").status == 2
