"""``income-client configure``: saves address and credentials in the configuration file.

It writes a new file, or adds to one: a profile at its end, settings of no profile before the first.
It changes nothing that a file holds.
"""

import asyncio
import json
import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from income_client import ConfigurationError
from income_client.system.disk import locked_folder, make_folder, sync_folder, write_file
from income_client.system.texts import has_surrogate, printable, reason_of

from .connection import Connection, ask, can_ask, connect
from .exit_status import ExitStatus
from .options import Switch
from .output import say, write_text

if TYPE_CHECKING:
    from income_client.configuration import CredentialKeys

_NAMES: Final = {
    "base_url": "--base-url",
    "auth_url": "--auth-url",
    "client_id": "--client-id",
    "client_secret": "the secret",
    "client_secret_file": "--secret-file",
    "username": "--username",
    "password": "the secret",
    "password_file": "--secret-file",
}
"""Name of each setting in messages."""
_Text = Annotated[str | None, Parameter(show_default=False)]


def configure(
    *,
    profile: Annotated[str | None, Parameter(show_default=False, metavar="NAME")] = None,
    base_url: Annotated[_Text, Parameter(metavar="URL")] = None,
    auth_url: Annotated[_Text, Parameter(metavar="URL")] = None,
    client_id: Annotated[_Text, Parameter(metavar="ID")] = None,
    username: Annotated[_Text, Parameter(metavar="NAME")] = None,
    secret_file: Annotated[Path | None, Parameter(show_default=False, metavar="FILE")] = None,
    no_check: Switch = False,
    config: Annotated[Path | None, Parameter(show_default=False, metavar="FILE")] = None,
) -> int:
    """Save address and credentials in the configuration file.

    Asks for what the options leave out, and makes one request with it. If that
    fails, nothing is saved; the exit status is 4 if the credentials are refused.

    The secret is typed in without echo, or read from standard input if that is
    not a terminal; with --secret-file it stays in a file of its own. Only you can
    read what is saved (mode 0600).

    Writes a new configuration file, or adds a profile to one, or settings without a
    profile. What a file has already is changed by hand: the lines to write are shown.

    Example: income-client configure --profile staging

    Args:
        profile: Save a profile of this name, for commands with --profile NAME.
            Default: $INCOME_PROFILE, if it is set.
        base_url: Address of the service.
        auth_url: Address of the token endpoint's host. Default: that of the service.
        client_id: Client id, for OAuth 2.0 credentials.
        username: User name, for Basic credentials.
        secret_file: File that holds the secret. Its path is saved, and it is read each
            time that the secret is needed.
        no_check: Save the settings without a request.
        config: Configuration file. Default: $INCOME_CONFIG or
            ~/.config/income-client/config.toml.
    """
    from income_client.configuration import (
        PROFILE_VARIABLE,
        Account,
        default_file,
        name_of,
        parse_toml,
    )

    if profile is None:
        profile = os.environ.get(PROFILE_VARIABLE) or None
    if profile is not None and not (profile and profile.isprintable()):
        raise ConfigurationError("--profile must be a name in printable characters")
    path = config or default_file()
    if path is None:
        raise ConfigurationError("--config is missing: there is no home folder")
    if client_id and username:
        raise ConfigurationError("--client-id and --username exclude each other")
    name = name_of(path)
    try:
        path.resolve()
    except RuntimeError:
        raise ConfigurationError(f"cannot use {name}: it is a link to itself") from None
    options = {
        "base_url": base_url, "auth_url": auth_url, "client_id": client_id, "username": username
    }  # fmt: skip
    if _has_settings(parse_toml(_read_file(path, name), name), profile):
        has = "settings" if profile is None else f"a profile {profile}"
        say(f"{name} has {has} already: change these lines of it by hand")
        lines = _toml_of(profile, _fill_in(options, secret_file)).splitlines()
        write_text(*map(printable, lines))
        return ExitStatus.MISUSED
    settings = _ask_for_missing(options, secret_file)
    _check_settings(settings)
    _save_file(path, name, profile, settings, is_checked=not no_check)
    say(f"saved in {name}" + (f"; use it with --profile {profile}" if profile else ""))
    environment = Account.of_variables(os.environ)
    if environment.keys and not profile and not config:
        names = ", ".join(map(environment.setting_name, environment.keys))
        say(f"the environment is used in place of it: {names}")
    return ExitStatus.DONE


def _read_file(path: Path, name: str) -> bytes:
    """Return the text of a configuration file; an empty text if there is no file."""
    from income_client.configuration import read_content

    try:
        return read_content(path)[0] if path.exists() else b""
    except OSError as error:
        raise ConfigurationError(f"cannot read {name}: {reason_of(error)}") from None


def _has_settings(table: Mapping[str, Any], profile: str | None) -> bool:
    """Return whether a file has a profile, or top-level settings if ``profile`` is None."""
    profiles = table.get("profiles")
    if profile is None:
        return not table.keys() <= {"profiles"}
    return isinstance(profiles, dict) and profile in profiles


def _toml_of(profile: str | None, settings: Mapping[str, str]) -> str:
    """Return settings in TOML, with texts as in JSON."""
    header = "" if profile is None else f"[profiles.{json.dumps(profile, ensure_ascii=False)}]\n"
    texts = {key: json.dumps(text, ensure_ascii=False) for key, text in settings.items()}
    return header + "".join(f"{key} = {text}\n" for key, text in texts.items())


def _fill_in(options: Mapping[str, str | None], secret_file: Path | None) -> dict[str, str]:
    """Return the settings of the options, with dots for missing ones, and without any secret."""
    kind = _kind_of("username" if options["username"] else "client_id")
    secret = {kind.secret: "..."}
    if secret_file is not None:
        secret = {kind.secret_file: str(secret_file.absolute())}
    auth_url = {"auth_url": options["auth_url"]} if options["auth_url"] else {}
    address = {"base_url": options["base_url"] or "...", **auth_url}
    return {**address, kind.name: options[kind.name] or "...", **secret}


def _kind_of(name: str) -> "CredentialKeys":
    from income_client.configuration import CREDENTIALS

    (kind,) = (kind for kind in CREDENTIALS if kind.name == name)
    return kind


def _ask_for_missing(options: Mapping[str, str | None], secret_file: Path | None) -> dict[str, str]:
    """Return the settings to save, by key, after questions about missing ones."""
    base_url = options["base_url"] or _ask_visibly("Address of the service")
    key = "username" if options["username"] else "client_id"
    name = options[key] or _ask_visibly("Client id (none for a user name)")
    if not name:
        key, name = "username", _ask_visibly("User name")
    kind = _kind_of(key)
    settings = {"base_url": base_url, "auth_url": options["auth_url"], key: name}
    if secret_file is not None:
        if has_surrogate(str(secret_file)):
            raise ConfigurationError("--secret-file must be a path in UTF-8")
        settings[kind.secret_file] = str(secret_file.absolute())
    elif base_url and name:
        words = kind.secret.replace("_", " ").capitalize()
        settings[kind.secret] = _ask_for_secret(f"{words} of {name}")
    return {key: text for key, text in settings.items() if text}


def _ask_visibly(question: str) -> str | None:
    """Ask for a setting that is no secret; None without a terminal or an answer."""
    if not can_ask():
        return None
    sys.stderr.write(f"{question}: ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise ConfigurationError("nothing was saved")
    return line.strip() or None


def _ask_for_secret(words: str) -> str | None:
    if can_ask():
        answer = ask(words)
        return None if answer is None else answer.reveal()
    line = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.readline()
    return line.rstrip("\r\n") or None


def _check_settings(settings: Mapping[str, str]) -> None:
    """Raise a `ConfigurationError` that names the option of an invalid or missing setting."""
    from income_client import IncomeClient
    from income_client.configuration import Account, Configuration

    account = Account.of_texts(settings)
    if account.base_url is None:
        raise ConfigurationError("--base-url is missing")
    if not account.kinds:
        raise ConfigurationError("--client-id or --username is missing")
    advice = ": type it in, pipe it into standard input, or name its file with --secret-file"
    Configuration(account=account, elsewhere=_NAMES, advice=advice).make_client(IncomeClient, {})


def _save_file(
    path: Path, name: str, profile: str | None, settings: Mapping[str, str], *, is_checked: bool
) -> None:
    """Save a file with the new settings, after a successful request with them."""
    place = path.resolve()  # a link to a file that is kept elsewhere stays one
    part = place.with_name(f".{place.name}.new")
    try:
        make_folder(place.parent)
        with locked_folder(place.parent):
            before = _read_file(place, name)
            write_file(part, _add_settings(before, name, profile, settings))
            try:
                if is_checked:
                    asyncio.run(_check_service(Connection(config=part, profile=profile)))
                # What an editor has saved meanwhile would be lost.
                if _read_file(place, name) != before:
                    raise ConfigurationError(f"{name} has changed meanwhile: nothing was saved")
                part.replace(place)
                sync_folder(place.parent)
            finally:
                part.unlink(missing_ok=True)
    except BlockingIOError:
        fault = f"another configure is at work on {name}: nothing was saved"
        raise ConfigurationError(fault) from None
    except OSError as error:
        raise ConfigurationError(f"cannot write {name}: {reason_of(error)}") from None


def _add_settings(
    before: bytes, name: str, profile: str | None, settings: Mapping[str, str]
) -> bytes:
    """Return a file's text with a profile at its end, or top-level settings at its beginning."""
    from income_client.configuration import MAX_BYTES, parse_toml

    table = parse_toml(before, name)
    if _has_settings(table, profile):
        raise ConfigurationError(f"{name} has changed meanwhile: nothing was saved")
    added = _toml_of(profile, settings).encode()
    if profile is None and table:
        content = added + b"\n" + before
    else:
        gap = b"" if not before else b"\n" if before.endswith(b"\n") else b"\n\n"
        content = before + gap + added
    if len(content) > MAX_BYTES:
        raise ConfigurationError(
            f"{name} would be longer than {MAX_BYTES // 1024} KiB, and not be read"
        )
    try:
        # Profiles that are written in another way, such as an array, cannot be added to.
        is_read = _has_settings(tomllib.loads(content.decode("utf-8-sig")), profile)
    except ValueError:  # its text may quote the file
        is_read = False
    if not is_read:
        raise ConfigurationError(f"{name} is written in a way that cannot be added to: edit it")
    return content


async def _check_service(connection: Connection) -> None:
    async with connect(connection) as client:
        await client.check()
