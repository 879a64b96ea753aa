"""``configure``: address and credentials are asked for, tried and saved for their owner alone."""

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Final

import pytest

from income_client.disk import locked_folder
from income_client.testing import IncomeService
from tests.support.cli import Cli, Running
from tests.support.processes import environment, started
from tests.support.streams import Terminal

NOWHERE: Final = "http://127.0.0.1:1"
NEW: Final = ("--base-url", NOWHERE, "--client-id", "new", "--no-check")
UNCHANGED: Final = (
    "base_url = ", "base_url = " + "[" * 5000, "profiles = 1\n", "[[profiles]]\nx = 1\n",
    "[profiles]\nx = 1\n",
)  # fmt: skip
"""Files that are malformed, or say something else where a profile would be."""
pytestmark = pytest.mark.income_service(applications=3)


@pytest.fixture
def file(cli: Cli) -> Path:
    """Where the configuration file is unless another is named."""
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
client_secret = "kept to itself"
anything = ["of", "another version"]

# for tests; ask Zoë
[ profiles."staging" ]  # since May
    username = "two"
    base_url = "https://two.example" # a copy
password = "old"
ca_file = "ca.pem"

# nobody uses it
[profiles.third]
base_url="https://three.example"
"""
STAGING: Final = (
    """\
    username = "two"
    base_url = "https://two.example" # a copy
password = "old"
""",
    """\
client_id = "new"
client_secret = "say \\"so\\"\\\\"
    base_url = "http://127.0.0.1:1" # a copy
""",
)
"""Lines of a profile, before and after."""


@pytest.mark.parametrize("profile", [None, "staging", "third", "new"])
def test_everything_else_is_kept(profile: str | None, cli: Cli, file: Path) -> None:
    """Other profiles, unknown keys and comments stay; credentials of another kind do not.

    Values change where they are; a new key parts no comment from what it is about.
    """
    file.parent.mkdir(parents=True)
    file.write_text(LAYOUT, "utf-8")
    names = () if profile is None else ("--profile", profile)
    assert cli("configure", *NEW, *names, stdin='say "so"\\').status == 0
    text, meant = file.read_text("utf-8"), tomllib.loads(LAYOUT)
    changed = meant if profile is None else meant["profiles"].setdefault(profile, {})
    for key in ("username", "password"):
        changed.pop(key, None)
    changed.update(base_url=NOWHERE, client_id="new", client_secret='say "so"\\')
    assert tomllib.loads(text) == meant
    assert re.findall("#.*", text) == re.findall("#.*", LAYOUT)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    if profile == "staging":
        assert text == LAYOUT.replace(*STAGING)


@pytest.mark.parametrize(
    "text",
    [
        'profiles = {x = {base_url = "a"}}\n',
        'profiles = {y = {base_url = "a"}}\n',
        "[profiles]\nx.base_url = 'a'\n",
        "profiles.x.base_url = 'a'\nmore = 1\n",
        "profiles.y.base_url = 'a'\nmore = 1\n",
        "[profiles.y]\nbase_url = 'a'\n[other]\nmore = 1\n[profiles.x]\nbase_url = 'b'\n",
        "# nothing yet",
        *UNCHANGED,
    ],
)
def test_a_file_is_changed_as_meant_or_not_at_all(text: str, cli: Cli, file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text, "utf-8")
    ran = cli("configure", *NEW, "--profile", "x", stdin="secret\n")
    if ran.status == 2:
        assert "config.toml" in ran.stderr
        assert "edit it" in ran.stderr or text in UNCHANGED
        assert file.read_text("utf-8") == text
        return
    assert text not in UNCHANGED
    meant = tomllib.loads(text)
    new = {"base_url": NOWHERE, "client_id": "new", "client_secret": "secret"}
    meant.setdefault("profiles", {})["x"] = new
    assert tomllib.loads(file.read_text("utf-8")) == meant


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
    """One that would undo what another has saved meanwhile, or is saving, saves nothing."""
    options = ("configure", *NEW)
    file.parent.mkdir(parents=True)
    env = {**environment(), "HOME": str(cli.folder / "home")}
    with started(*options, env=env, terminal=Terminal(), owns_terminal=True) as process:
        process.stderr.wait_for("(not shown): ")
        assert cli(*options, "--profile", "x", stdin="secret\n").status == 0
        before = file.read_text("utf-8")
        process.write("other\n")
        ran = process.wait()
    assert (ran.status, "changed meanwhile" in ran.screen) == (2, True)
    with locked_folder(file.parent):
        late = cli(*options, stdin="other\n")
    assert (late.status, "another configure" in late.stderr) == (2, True)
    assert file.read_text("utf-8") == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_saved_secret_is_for_its_own_address(
    cli: Cli, file: Path, income_service: IncomeService
) -> None:
    """Without a terminal what was saved is kept; nothing of it goes to another address."""
    options, secret = options_of(income_service)
    assert cli("configure", *options, stdin=secret).status == 0
    before = file.read_text("utf-8")
    assert cli("configure").status == 0
    assert file.read_text("utf-8") == before
    for other in (("--base-url", NOWHERE, *options[2:]), ("--auth-url", NOWHERE)):
        ran = cli("configure", *other)
        assert (ran.status, "the secret is missing" in ran.stderr) == (2, True)
    assert file.read_text("utf-8") == before


@pytest.mark.parametrize("kind", ["oauth2", "basic"])
def test_a_file_holds_the_secret(
    kind: str, cli: Cli, file: Path, income_service: IncomeService
) -> None:
    """Its path is saved and kept, it is read each time, and a secret replaces it."""
    options, secret = options_of(income_service, kind)
    key = "password" if kind == "basic" else "client_secret"
    assert cli("configure", *options, stdin=secret).status == 0
    own = cli.folder / "secret"
    for content, fault in ((None, "cannot read"), ("", "is empty")):
        if content is not None:
            own.write_text(content)
        ran = cli("configure", *options, "--secret-file", "secret", "--no-check")
        assert (ran.status, fault in ran.stderr) == (2, True)
        assert key in tomllib.loads(file.read_text("utf-8"))
    own.write_text(f"{secret}\n")
    assert cli("configure", *options, "--secret-file", "secret", stdin="another").status == 0
    before = file.read_text("utf-8")
    saved = tomllib.loads(before)
    assert (saved[f"{key}_file"], key in saved) == (str(own), False)
    assert cli("configure").status == 0
    assert file.read_text("utf-8") == before
    assert cli("applications", "-q").status == 0
    own.write_text("another")
    assert cli("applications", "-q").status == 4
    assert cli("configure", "--base-url", NOWHERE).status == 2
    assert cli("configure", stdin=secret).status == 0
    assert tomllib.loads(file.read_text("utf-8")).keys() & {key, f"{key}_file"} == {key}
