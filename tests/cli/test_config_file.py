"""The file that keeps an account: who may read it, what stands in it, and what is said of it."""

import os
from pathlib import Path

import pytest

from income_client.cli.accounts.account import Account
from income_client.cli.accounts.config_file import default_path, name_of, read_config

TEXT = """
base_url = "https://income.example"
client_id = "id"
client_secret = "canary"

[profiles.staging]
base_url = "https://staging.example"
client_id = "id-2"
client_secret = "canary-2"

[profiles.same]
auth_url = "https://token.example"
"""
IN_FILE = Account.of(
    {"base_url": "https://income.example", "client_id": "id", "client_secret": "canary"}
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that is as it has to be."""
    return written(tmp_path / "config.toml", TEXT)


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    """Write a file with a mode."""
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_of_ones_own_is_read(path: Path, mode: int) -> None:
    """What its owner alone can read is used, whether it can be written or not."""
    path.chmod(mode)
    assert read_config(path, None) == IN_FILE


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601])
def test_a_file_that_others_can_read_is_refused(path: Path, mode: int) -> None:
    """The message says the command that helps."""
    path.chmod(mode)
    assert read_config(path, None) == (
        f"{path} can be read by others; it is for secrets: chmod 600 {path}"
    )


def test_the_command_that_helps_can_be_typed(tmp_path: Path) -> None:
    """A path with spaces is quoted as a shell wants it."""
    path = written(tmp_path / "my config", TEXT, 0o644)
    assert str(read_config(path, None)).endswith(f"chmod 600 '{path}'")


@pytest.mark.skipif(os.geteuid() != 0, reason="only a superuser gives files away")
def test_a_file_of_somebody_else_is_refused(path: Path) -> None:
    """Who owns it could read and change it."""
    os.chown(path, 65534, -1)
    assert "belongs to somebody else" in str(read_config(path, None))


def test_a_link_is_followed_to_what_it_leads_to(path: Path, tmp_path: Path) -> None:
    """The file itself is looked at, wherever its name stands."""
    link = tmp_path / "link"
    link.symlink_to(path)
    assert read_config(link, None) == IN_FILE
    path.chmod(0o644)
    assert "can be read by others" in str(read_config(link, None))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A folder, a pipe that nobody writes to, and nothing at all are said, and not waited for."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    assert read_config(pipe, None) == f"{pipe} is no regular file"
    assert read_config(tmp_path, None) in (
        f"{tmp_path} is no regular file",
        f"cannot read {tmp_path}: is a directory",
    )
    assert read_config(tmp_path / "x", None) == (
        f"cannot read {tmp_path / 'x'}: no such file or directory"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('client_secret = "canary', "{} is no TOML (end of document)"),
        ('client_secret = "canary\x00"', "{} is no TOML (line 1, column 24)"),
        ("canary", "{} is no TOML (end of document)"),
        ('client-secret = "canary"', "an unknown key in {}; there are base_url"),
        ('canary_Secret = "x"', "an unknown key in {}; there are base_url"),
        ('secret = "canary"', "unknown key secret in {}; there are base_url"),
        ("client_secret = 7", "client_secret in {} is no text"),
        ('client_secret = ["canary"]', "client_secret in {} is no text"),
        ("x = " + "[" * 5000, "{} is no TOML"),
        ("#" * 70_000, "{} is longer than 64 KiB"),
        ('"\\u001b[31m" = 1', "an unknown key in {}"),
    ],
)
def test_what_cannot_be_meant_is_told_and_not_shown(
    tmp_path: Path, text: str, message: str
) -> None:
    """The place and the key are named; no value is."""
    path = written(tmp_path / "config.toml", text)
    told = str(read_config(path, None))
    assert told.startswith(message.format(path))
    assert "canary" not in told


def test_bytes_that_are_no_text_are_no_toml(tmp_path: Path) -> None:
    """A file in another encoding is said to be none."""
    path = tmp_path / "config.toml"
    path.write_bytes(b'client_secret = "canary\xff"')
    path.chmod(0o600)
    assert read_config(path, None) == f"{path} is no TOML"


def test_a_profile_goes_over_the_rest(path: Path) -> None:
    """It may be another service with credentials of its own, or add to the one there is."""
    staging = {
        "base_url": "https://staging.example",
        "client_id": "id-2",
        "client_secret": "canary-2",
    }
    assert read_config(path, "staging") == Account.of(staging)
    same = read_config(path, "same")
    assert isinstance(same, Account)
    assert (same.client_id, same.auth_url) == ("id", "https://token.example")


def test_a_profile_that_is_not_there_is_told(path: Path, tmp_path: Path) -> None:
    """So is an unknown key in one."""
    assert read_config(path, "x") == f"{path} has no profile x"
    other = written(tmp_path / "other", '[profiles.x]\nurl = "canary"')
    assert str(read_config(other, "x")).startswith(f"unknown key url of profile x in {other}")
    odd = written(tmp_path / "odd", 'profiles = "canary"')
    assert read_config(odd, "x") == f"{odd} has no profile x"


def test_where_it_is_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below $XDG_CONFIG_HOME if that is an absolute path, else below ~/.config."""
    monkeypatch.setenv("HOME", "/home/somebody")
    here = Path("/home/somebody/.config/income-client/config.toml")
    assert default_path({}) == here
    assert default_path({"XDG_CONFIG_HOME": "relative"}) == here
    assert default_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/income-client/config.toml")
    assert name_of(here) == "~/.config/income-client/config.toml"
    assert name_of(Path("/etc/x")) == "/etc/x"
