"""The file that keeps an account: TOML that nobody but its owner can read; shows nothing of it.

A symbolic link to it is followed, as people keep such files elsewhere: what
counts is whom the opened file belongs to and who may read it, and no other
user can lay a file there that is both yours and readable to you alone.
"""

import os
import re
import shlex
import stat
import tomllib
from pathlib import Path
from typing import Any, Final

from income_client.cli.output.printable import printable
from income_client.cli.output.saying import reason_of

from .account import KEYS, Account

_MOST_BYTES: Final = 64 * 1024
_OTHERS: Final = 0o077
_PROFILES: Final = "profiles"
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


def read_config(path: Path, profile: str | None) -> Account | str:
    """Return what the file says, or why it is not used.

    Args:
        path: the file.
        profile: name of a table below ``[profiles]`` that goes over the file's own keys.
    """
    name = name_of(path)
    text = _text(path)
    if isinstance(text, OSError):
        return f"cannot read {name}: {reason_of(text)}"
    if isinstance(text, str):
        return f"{name} {text}"
    try:
        table = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        # Its own words may quote the file.
        place = _PLACE.search(str(error))
        return f"{name} is no TOML{f' ({place[1]})' if place else ''}"
    profiles = table.pop(_PROFILES, {})
    own = _account(table, path, "")
    if profile is None or isinstance(own, str):
        return own
    chosen = profiles.get(profile) if isinstance(profiles, dict) else None
    if not isinstance(chosen, dict):
        return f"{name} has no profile {printable(profile)}"
    over = _account(chosen, path, f" of profile {printable(profile)}")
    return over if isinstance(over, str) else over.over(own)


def _text(path: Path) -> bytes | str | OSError:
    """Return what is in the file, or what is wrong with it."""
    try:
        # A pipe that nobody writes to would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - the very file that is looked at
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return "is no regular file"
            if status.st_uid != os.geteuid():
                return "belongs to somebody else, and is for secrets: it must be yours"
            if status.st_mode & _OTHERS:
                return f"can be read by others; it is for secrets: chmod 600 {_quoted(path)}"
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        return error.with_traceback(None)
    return text if len(text) <= _MOST_BYTES else f"is longer than {_MOST_BYTES // 1024} KiB"


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
