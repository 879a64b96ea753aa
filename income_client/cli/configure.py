"""``income-client configure``: saves address and credentials in the configuration file."""

import asyncio
import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import tomlkit
from cyclopts import Parameter
from tomlkit.container import Container
from tomlkit.items import Table

from income_client import ConfigurationError, Secret
from income_client.disk import locked_folder, make_folder, sync_folder, write_file
from income_client.texts import has_surrogate, printable, reason_of

from .connection import Connection, ask, can_ask, connect
from .exit_status import ExitStatus
from .options import Switch
from .output import say

_CREDENTIALS: Final = (
    *("client_id", "client_secret", "client_secret_file"),
    *("username", "password", "password_file"),
)
"""The keys of credentials, in the order in which they are saved."""
_OPTIONS: Final = {
    "base_url": "--base-url",
    "auth_url": "--auth-url",
    "client_id": "--client-id",
    "username": "--username",
}
"""The option of each setting that has one."""
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
    read what is saved (mode 0600). Other profiles, other keys and comments in the
    configuration file are kept.

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
    from income_client.configuration import MAX_BYTES, PROFILE_VARIABLE, default_file, name_of

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
    content, table = _read_settings(path, name)
    text = content.decode().replace("\r\n", "\n")
    given = {
        "base_url": base_url, "auth_url": auth_url, "client_id": client_id, "username": username
    }  # fmt: skip
    settings = _ask_for_missing(given, secret_file, _section_of(table, profile))
    _check_settings(settings, secret_file)
    changed = _edit_text(text, profile, settings)
    if changed is None:
        raise ConfigurationError(f"{name} is written in a way that cannot be changed here: edit it")
    if len(changed.encode()) > MAX_BYTES:
        longest = f"{MAX_BYTES // 1024} KiB"
        raise ConfigurationError(f"{name} would be longer than {longest}, and not be read")
    _save_file(path, content, changed, profile, is_checked=not no_check)
    say(f"saved in {name}" + (f"; use it with --profile {profile}" if profile else ""))
    if not profile and not config and os.environ.get("INCOME_BASE_URL"):
        say("INCOME_BASE_URL is set, and overrides it")
    return ExitStatus.DONE


def _read_settings(path: Path, name: str) -> tuple[bytes, dict[str, Any]]:
    from income_client.configuration import parse_toml, read_content

    try:
        content = read_content(path)[0] if path.exists() else b""
        return content, parse_toml(content, name)
    except OSError as error:
        raise ConfigurationError(f"cannot read {name}: {reason_of(error)}")


def _section_of(table: Mapping[str, Any], profile: str | None) -> Mapping[str, Any]:
    """Return what a file says at its top level, or in a profile that may be missing."""
    profiles = table.get("profiles")
    section = table if profile is None else isinstance(profiles, dict) and profiles.get(profile)
    return section if isinstance(section, dict) else {}


def _ask_for_missing(
    given: Mapping[str, str | None], secret_file: Path | None, saved: Mapping[str, Any]
) -> dict[str, str | None]:
    """Return each key with its value, None for one to be removed; asks for what is missing."""
    from income_client.configuration import CREDENTIALS

    base_url = given["base_url"] or _ask_visibly("Address of the service", saved.get("base_url"))
    # What was saved for one address is of no use, or a leak, at another one.
    saved = saved if base_url == saved.get("base_url") else {}
    auth_url = given["auth_url"] or saved.get("auth_url")
    kind = "username" if given["username"] else "client_id"
    name = given[kind]
    if name is None:
        name = _ask_visibly("Client id (none for a user name)", saved.get("client_id"))
        if not name:
            kind = "username"
            name = _ask_visibly("User name", saved.get("username"))
    (keys,) = (one for one in CREDENTIALS if one.name == kind)
    is_same = saved.get(kind) == name and saved.get("auth_url") == auth_url
    settings = {"base_url": base_url, "auth_url": auth_url, **dict.fromkeys(_CREDENTIALS)}
    settings[kind] = name
    if secret_file is not None:
        if has_surrogate(str(secret_file)):
            raise ConfigurationError("--secret-file must be a path in UTF-8")
        settings[keys.secret_file] = str(secret_file.absolute())
    elif secret := _ask_for_secret(f"{keys.secret.replace('_', ' ').capitalize()} of {name}"):
        settings[keys.secret] = secret
    elif is_same:
        settings |= {key: saved.get(key) for key in (keys.secret, keys.secret_file)}
    return settings


def _ask_visibly(question: str, default: str | None) -> str | None:
    """Ask for something that need not be hidden; without anybody to ask it stays as it was."""
    if not can_ask():
        return default
    shown = f" [{printable(str(default))}]" if default else ""
    sys.stderr.write(f"{question}{shown}: ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise ConfigurationError("nothing was saved")
    return line.strip() or default


def _ask_for_secret(words: str) -> str | None:
    if can_ask():
        answer = ask(words)
        return None if answer is None else answer.reveal()
    line = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.readline()
    return line.rstrip("\r\n") or None


def _check_settings(settings: Mapping[str, str | None], secret_file: Path | None) -> None:
    """Raise a `ConfigurationError` that names the option of an invalid or missing setting."""
    from income_client import IncomeClient
    from income_client.configuration import CREDENTIALS, FileCredentials

    if not settings["base_url"]:
        raise ConfigurationError("--base-url is missing")
    keys = next((one for one in CREDENTIALS if settings[one.name]), None)
    if keys is None:
        raise ConfigurationError("--client-id or --username is missing")
    name, secret = settings[keys.name] or "", settings[keys.secret]
    file = FileCredentials(keys, name, Path(settings[keys.secret_file] or ""))
    if not secret and not settings[keys.secret_file]:
        raise ConfigurationError(
            "the secret is missing: type it in, pipe it into standard input, "
            "or name its file with --secret-file"
        )
    try:
        if secret_file is not None:
            file.read()
        auth = keys.make(name, Secret(secret)) if secret else file
        IncomeClient(settings["base_url"], auth=auth, auth_url=settings["auth_url"])
    except ConfigurationError as error:
        option = _OPTIONS.get(error.argument or "")
        if option is None:
            raise
        raise ConfigurationError(f"{option} {error.detail}")


def _save_file(
    path: Path, before: bytes, text: str, profile: str | None, *, is_checked: bool
) -> None:
    """Put the file in its place, whole, once a request with its settings has succeeded."""
    place = path.resolve()  # a link to a file that is kept elsewhere stays one
    part = place.with_name(f".{place.name}.new")
    try:
        make_folder(place.parent)
        with locked_folder(place.parent):
            write_file(part, text.encode())
            try:
                if is_checked:
                    asyncio.run(_check_service(Connection(config=part, profile=profile)))
                # What somebody has saved since it was read would be lost.
                if _read_settings(place, str(path))[0] != before:
                    raise ConfigurationError(f"{path} has changed meanwhile: nothing was saved")
                part.replace(place)
                sync_folder(place.parent)
            finally:
                part.unlink(missing_ok=True)
    except BlockingIOError:
        fault = f"another configure is at work on {path}: nothing was saved"
        raise ConfigurationError(fault)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {reason_of(error)}")


async def _check_service(connection: Connection) -> None:
    async with connect(connection) as client:
        await client.check()


def _edit_text(text: str, profile: str | None, settings: Mapping[str, str | None]) -> str | None:
    """Return the text of a file with these settings at its top level, or in a profile.

    All else stays, comments and layout included. None if that is not what came of it, as with
    some layouts: what is saved here decides where a secret is sent.
    """
    try:
        document, meant = tomlkit.parse(text), tomllib.loads(text)
        _set_values(document, profile, settings)
        _set_values(meant, profile, settings)
        edited = document.as_string()
        return edited if tomllib.loads(edited) == meant else None
    except Exception:  # noqa: BLE001 - its text may quote the file
        return None


def _set_values(document: Any, profile: str | None, settings: Mapping[str, str | None]) -> None:
    section = document
    if profile is not None:
        profiles = document.setdefault("profiles", {profile: {}})
        section = profiles.setdefault(profile, {})
    for key, value in reversed(list(settings.items())):
        if value is None:
            section.pop(key, None)
        elif key not in section:
            _add_value(section, key, value)
        elif section[key] != value:
            section[key] = value


def _add_value(section: Any, key: str, value: str) -> None:
    container = section.value if isinstance(section, Table) else section
    if isinstance(container, Container) and container.body:
        # At the end, it would come between a comment and the next header, which that is about.
        container._insert_at(0, key, tomlkit.item(value))  # noqa: SLF001 - offered in no other way
    else:
        section[key] = value
