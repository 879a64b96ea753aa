"""The TOML file that keeps an account; only its owner may read it once it holds a secret.

A symbolic link to it is followed, as people keep such files elsewhere: what
counts is whom the opened file belongs to and who may read it.
"""

import os
import re
import shlex
import stat
import tomllib
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from income_client.cli.output.printable import printable
from income_client.cli.output.saying import reason_of

from .account import KEYS, SECRETS, Account

_MOST_BYTES: Final = 64 * 1024
_READ: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_OTHERS: Final = 0o077
_PROFILES: Final = "profiles"
_PROXY: Final = "proxy"
_CA_FILE: Final = "ca_file"
_SHOWN_KEY: Final = re.compile(r"[a-z_]{1,30}")
_PLACE: Final = re.compile(r"\(at (line \d+, column \d+|end of document)\)")


def default_path(variables: dict[str, str]) -> Path | None:
    """Return where the file is unless somebody says otherwise; None without a home.

    Args:
        variables: the environment.
    """
    folder = variables.get("XDG_CONFIG_HOME", "")
    try:
        # Relative ones are to be ignored, says the specification of these folders.
        parent = Path(folder) if folder.startswith("/") else Path("~/.config").expanduser()
    except RuntimeError:
        return None
    return parent / "income-client" / "config.toml"


def name_of(path: Path) -> str:
    """Return a path as people write it, the home folder as ``~``."""
    try:
        return printable(f"~/{path.relative_to(Path.home())}")
    except (ValueError, RuntimeError):
        return printable(str(path))


@frozen(kw_only=True)
class Config:
    """What a file says."""

    profile: Account
    """The keys of the named profile; nothing where none is named."""
    top: Account
    """The keys at its top level."""


def read_config(path: Path, profile: str | None) -> Config | str:
    """Return what the file says, or why it is not used.

    Args:
        path: the file.
        profile: name of a table below ``[profiles]``, if one is wanted.
    """
    table = _table(path)
    if isinstance(table, str):
        return table
    profiles = table.pop(_PROFILES, {})
    top = _account(table, path, "")
    if isinstance(top, str):
        return top
    if profile is None:
        return Config(profile=Account(), top=top)
    chosen = profiles.get(profile) if isinstance(profiles, dict) else None
    if not isinstance(chosen, dict):
        return f"{name_of(path)} has no profile {printable(profile)}"
    over = _account(chosen, path, f" of profile {printable(profile)}")
    return over if isinstance(over, str) else Config(profile=over, top=top)


def _table(path: Path) -> dict[str, Any] | str:
    """Return the whole file, or why it is not used."""
    name = name_of(path)
    found = _text(path)
    if isinstance(found, OSError):
        return f"cannot read {name}: {reason_of(found)}"
    if isinstance(found, str):
        return f"{name} {found}"
    text, status = found
    try:
        table = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        # Its own words may quote the file.
        place = _PLACE.search(str(error))
        return f"{name} is no TOML{f' ({place[1]})' if place else ''}"
    fault = _exposed(path, status) if _holds_secret(table) else None
    return table if fault is None else f"{name} {fault}"


def _holds_secret(table: dict[str, Any]) -> bool:
    """Say whether a secret is at the top or in a profile."""
    profiles = table.get(_PROFILES)
    inner = profiles.values() if isinstance(profiles, dict) else ()
    return any(
        any(map(one.get, SECRETS)) or "@" in str(one.get(_PROXY))
        for one in (table, *inner)
        if isinstance(one, dict)
    )


def _exposed(path: Path, status: os.stat_result) -> str | None:
    """Return why a file with secrets is not private, if it is not."""
    if not hasattr(os, "geteuid"):
        return None  # a system without owners and modes of files
    if status.st_uid != os.geteuid():
        return "belongs to somebody else and holds a secret: it must be yours"
    if status.st_mode & _OTHERS:
        return f"can be read by others and holds a secret: chmod 600 {_quoted(path)}"
    return None


def _text(path: Path) -> tuple[bytes, os.stat_result] | str | OSError:
    """Return what is in the file and who may read it, or what is wrong with it."""
    try:
        # A pipe that nobody writes to would be waited for.
        descriptor = os.open(path, _READ)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - the very file that is looked at
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return "is no regular file"
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        return error.with_traceback(None)
    if len(text) > _MOST_BYTES:
        return f"is longer than {_MOST_BYTES // 1024} KiB"
    return text, status


def _quoted(path: Path) -> str:
    name = name_of(path)
    return name if re.fullmatch(r"~?[A-Za-z0-9_./-]+", name) else shlex.quote(printable(str(path)))


def _account(table: dict[str, Any], path: Path, whose: str) -> Account | str:
    name = name_of(path)
    for key, value in table.items():
        if key not in KEYS:
            # A secret may have been put where a key belongs.
            unknown = f"unknown key {key}" if _SHOWN_KEY.fullmatch(key) else "an unknown key"
            return f"{unknown}{whose} in {name}; there are {', '.join(KEYS)}"
        if not isinstance(value, str):
            return f"{key}{whose} in {name} is no text"
    if table.get(_CA_FILE):
        # Not below the folder where a command happens to be run.
        table = {**table, _CA_FILE: str(path.absolute().parent / _home(table[_CA_FILE]))}
    return Account.of(table)


def _home(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
