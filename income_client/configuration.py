"""A client's settings from environment variables and from a configuration file in TOML.

Address and credentials come from one place, which is taken whole: a profile or a file that the
caller asks for; else the environment, if it sets any of them; else the top level of the user's own
file. So no secret can be sent to an address, or with a name, that was set somewhere else. A proxy
and certificate authorities belong to the machine: where the place sets none, those of the
environment and then those of the file's top level are used.
"""

import os
import re
import shlex
import ssl as tls
import stat
import tomllib
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

from attrs import evolve, field, fields_dict, frozen

from .errors import ConfigurationError, copy_without_traceback
from .events.instrumentation import OnEvent
from .http.credentials import SecretFileError
from .http.tokens import TokenStore
from .http.transport import BorrowedSession
from .settings import (
    Auth,
    BasicAuth,
    DeprecatedOptions,
    DownloadPolicy,
    OAuth2ClientCredentials,
    RetryPolicy,
    Secret,
    Timeouts,
    check_type,
    wrong,
)
from .system.clock import Clock
from .system.disk import is_open_to_others, is_ours
from .system.texts import printable, reason_of
from .system.tls import default_context

C = TypeVar("C")


class SyncClientOptions(DeprecatedOptions, total=False):
    """Keyword arguments of `SyncIncomeClient` other than its addresses and credentials."""

    timeouts: Timeouts | None
    retry: RetryPolicy | None
    concurrency: int
    max_rate: float | None
    token_store: TokenStore | None
    service_timezone: tzinfo
    downloads: DownloadPolicy | None
    proxy: str | None
    ssl: tls.SSLContext | None
    keep_error_bodies: bool
    on_event: OnEvent | None
    clock: Clock | None


class ClientOptions(SyncClientOptions, total=False):
    """Keyword arguments of `IncomeClient` other than its addresses and credentials."""

    session: BorrowedSession | None


def check_options(function: str, options: SyncClientOptions) -> None:
    """Raise a `ConfigurationError` for an unknown option, before any secret is read."""
    unknown = options.keys() - ClientOptions.__optional_keys__
    if unknown:
        from ._other_names import argument_meant  # noqa: PLC0415 - see there

        option = min(unknown)
        meant = argument_meant(function, option)
        ending = "" if meant is None else f": {meant}"
        raise ConfigurationError(f"{function} has no option {printable(option)}{ending}")


class CredentialKeys(NamedTuple):
    """The keys of one kind of credentials: the secret is set, or else a file that contains it."""

    name: str
    secret: str
    secret_file: str
    make: type[BasicAuth] | type[OAuth2ClientCredentials]

    @property
    def keys(self) -> frozenset[str]:
        """All keys of this kind of credentials."""
        return frozenset({self.name, self.secret, self.secret_file})


CREDENTIALS: Final = (
    CredentialKeys("client_id", "client_secret", "client_secret_file", OAuth2ClientCredentials),
    CredentialKeys("username", "password", "password_file", BasicAuth),
)
_PATHS: Final = ("ca_file", "client_secret_file", "password_file")
_ROOT: Final = 0
_SECRETS: Final = frozenset({"client_secret", "password", "proxy"})
_OF_MACHINE: Final = ("proxy", "ca_file")


@frozen(kw_only=True)
class Account:
    """The settings of one place; None for settings that the place does not set."""

    place: str | None = None
    """Name of the settings file, with the profile if one is used; None for the environment."""
    base_url: str | None = field(default=None, repr=False)  # may hold a password by mistake
    auth_url: str | None = field(default=None, repr=False)
    client_id: str | None = None
    client_secret: Secret | None = None
    client_secret_file: str | None = None
    username: str | None = None
    password: Secret | None = None
    password_file: str | None = None
    proxy: Secret | None = None
    ca_file: str | None = None

    @classmethod
    def of_texts(cls, texts: Mapping[str, str], place: str | None = None) -> Self:
        """Make an account from texts by key; an empty text counts as not set."""
        fields: dict[str, Any] = {
            key: Secret(text) if key in _SECRETS else text for key, text in texts.items() if text
        }
        return cls(place=place, **fields)

    @classmethod
    def of_variables(cls, variables: Mapping[str, str]) -> Self:
        """Make an account from environment variables."""
        return cls.of_texts({key: variables.get(variable(key), "") for key in KEYS})

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of address and credentials that are set."""
        return tuple(
            key for key in KEYS if key not in _OF_MACHINE and getattr(self, key) is not None
        )

    @property
    def kinds(self) -> tuple[CredentialKeys, ...]:
        """The kinds of credentials with at least one key that is set."""
        return tuple(kind for kind in CREDENTIALS if not kind.keys.isdisjoint(self.keys))

    def setting_name(self, key: str) -> str:
        """Return the name of a setting of this place, as messages show it."""
        return variable(key) if self.place is None else f"{key} in {self.place}"


KEYS: Final = tuple(key for key in fields_dict(Account) if key != "place")
PROFILE_VARIABLE: Final = "INCOME_PROFILE"


def variable(key: str) -> str:
    """Return the name of the environment variable of a key."""
    return f"INCOME_{key.upper()}"


@frozen
class FileCredentials:
    """Credentials that are read from their file on each call: containers rotate such files."""

    kind: CredentialKeys
    name: str
    path: Path

    def __call__(self) -> Auth:
        """Return the current credentials; `IncomeClient` calls this whenever it needs them."""
        try:
            return self.read()
        except ConfigurationError as error:
            raise SecretFileError(error.message) from None

    def check(self) -> Self:
        """Return this object; raise a `ConfigurationError` if the file cannot be used."""
        try:
            self.read()
        except ConfigurationError as error:
            if error.argument == self.kind.name:
                raise
            raise wrong(self.kind.secret_file, f"cannot be used: {error.message}") from None
        return self

    def read(self) -> Auth:
        """Return the current credentials.

        A newline at the end of the file is not part of the secret.
        """
        content, _ = read_content(self.path)
        try:
            # Editors and shells of Windows put a byte order mark before a text.
            secret = content.decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError:
            raise ConfigurationError(f"{name_of(self.path)} is not text in UTF-8") from None
        if not secret:
            raise ConfigurationError(f"{name_of(self.path)} is empty")
        try:
            return self.kind.make(self.name, secret)
        except ConfigurationError as error:
            if error.argument == self.kind.name:
                raise
            raise ConfigurationError(f"{name_of(self.path)} {error.detail}") from None


@frozen(kw_only=True)
class Configuration:
    """The settings of a client: one account, and the proxy and certificate authorities to use."""

    account: Account
    elsewhere: Mapping[str, str] = {}
    """Names of the settings that ``account`` took from another place, by key."""
    advice: str = ""
    """Hint that messages add when a setting is missing."""

    def setting_name(self, key: str) -> str:
        """Return the name of a setting as messages show it: its variable, or its key and place."""
        return self.elsewhere.get(key) or self.account.setting_name(key)

    def name_setting(self, error: ConfigurationError) -> ConfigurationError:
        """Return an error whose text names the setting as its variable or its key."""
        key = error.argument
        if key is None or key not in KEYS or getattr(self.account, key) is None:
            return copy_without_traceback(error)
        message = f"{self.setting_name(key)} {error.detail}"
        return ConfigurationError(message, argument=key, detail=error.detail)

    def with_secret(self, secret: Secret) -> Self:
        """Return these settings with a secret that a person typed in."""
        (kind,) = self.account.kinds
        change: dict[str, Any] = {kind.secret: secret}
        words = f"the {kind.secret.replace('_', ' ')} that was typed in"
        account = evolve(self.account, **change)
        return evolve(self, account=account, elsewhere={**self.elsewhere, kind.secret: words})

    def auth(self) -> Auth | FileCredentials:
        """Return the credentials, or a function that reads them from their file on each call.

        Raises a `ConfigurationError` that says what is missing or cannot be read.
        """
        account = self.account
        if account.base_url is None:
            raise self._missing_setting_error("base_url")
        if len(account.kinds) != 1:
            raise self._missing_credentials_error()
        (kind,) = account.kinds
        name: str | None = getattr(account, kind.name)
        if name is None:
            raise self._missing_setting_error(kind.name)
        secret: Secret | None = getattr(account, kind.secret)
        path: str | None = getattr(account, kind.secret_file)
        try:
            match secret, path:
                case Secret(), None:
                    return kind.make(name, secret)
                case None, str():
                    return FileCredentials(kind, name, Path(path).absolute()).check()
                case None, None:
                    raise self._missing_setting_error(kind.secret)
                case _:
                    other = self.setting_name(kind.secret_file)
                    raise wrong(kind.secret, f"and {other} are both set: unset one of them")
        except ConfigurationError as error:
            raise self.name_setting(error) from None

    def _missing_setting_error(self, key: str) -> ConfigurationError:
        return ConfigurationError(f"set {self.setting_name(key)}{self.advice}", argument=key)

    def _missing_credentials_error(self) -> ConfigurationError:
        pairs = ((kind.name, kind.secret) for kind in CREDENTIALS)
        if self.account.place is None:
            pairs = ((variable(name), variable(secret)) for name, secret in pairs)
        choice = ", or ".join(" and ".join(pair) for pair in pairs)
        both = ", not both" if self.account.kinds else ""
        place = "" if self.account.place is None else f", in {self.account.place}"
        return ConfigurationError(f"set either {choice}{both}{place}{self.advice}")

    def tls(self) -> tls.SSLContext | None:
        """Return a TLS context that also trusts the authorities of ``ca_file``.

        None for the default.
        """
        if self.account.ca_file is None:
            return None
        try:
            return _make_tls_context(self.account.ca_file)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{self.setting_name('ca_file')}: {error.message}", argument="ca_file"
            ) from None

    def make_client(self, make: Callable[..., C], options: SyncClientOptions) -> C:
        """Make a client from these settings; ``options`` take precedence over them."""
        account, auth, added = self.account, self.auth(), self._add_to_options(options)
        try:
            return make(account.base_url, auth=auth, auth_url=account.auth_url, **added)
        except ConfigurationError as error:
            raise error if error.argument in options else self.name_setting(error) from None

    def _add_to_options(self, options: SyncClientOptions) -> SyncClientOptions:
        """Return a client's options, with this proxy and these authorities where they set none."""
        added = options.copy()
        if "ssl" not in options and (context := self.tls()) is not None:
            added["ssl"] = context
            downloads: object = options.get("downloads") or DownloadPolicy()
            if isinstance(downloads, DownloadPolicy) and downloads.ssl is None:
                added["downloads"] = evolve(downloads, ssl=context)
        if "proxy" not in options and self.account.proxy is not None:
            added["proxy"] = self.account.proxy.reveal()
        return added


def from_variables(variables: Mapping[str, str] = os.environ) -> Configuration:
    """Return the settings in the environment variables."""
    return Configuration(account=Account.of_variables(variables))


def from_file(
    profile: str | None = None,
    path: str | os.PathLike[str] | None = None,
    variables: Mapping[str, str] = os.environ,
) -> Configuration:
    """Return the settings of a profile or a top level, with the machine's proxy and authorities.

    The place is the profile, by default that of INCOME_PROFILE; or else the top level of the file
    at ``path``; or else the environment, if it sets an address or credentials; or else the top
    level of the file of INCOME_CONFIG, or of the user's own.
    """
    check_type("profile", profile, str)
    check_type("path", path, str, os.PathLike)
    is_of_variable = profile is None
    profile = variables.get(PROFILE_VARIABLE) or None if profile is None else profile
    file = default_file(variables) if path is None else Path(path)
    environment = Account.of_variables(variables)
    if path is None and profile is None:
        if environment.keys:
            return Configuration(account=environment, advice=_advice_to_unset(environment, file))
        if not variables.get("INCOME_CONFIG") and not _exists(file):
            advice = "" if file is None else f", or base_url in {name_of(file)}"
            return Configuration(account=environment, advice=advice)
    if file is None:
        raise ConfigurationError("there is no home folder: name the file by INCOME_CONFIG")
    (account, *rest), profiles = read_file(file, profile, is_of_variable=is_of_variable)
    others, advice = (environment, *rest), ""
    if names := ", ".join(each.setting_name(key) for each in others for key in each.keys):
        advice = f" (address and credentials come from one place; not used: {names})"
    if profile is None and profiles:
        choice = ", ".join(map(printable, profiles))
        advice += f", or choose a profile of it with {PROFILE_VARIABLE} or --profile: {choice}"
    return _add_machine_settings(Configuration(account=account, advice=advice), others)


def _advice_to_unset(environment: Account, file: Path | None) -> str:
    if file is None or not _exists(file):
        return ""
    names = " and ".join(map(environment.setting_name, environment.keys))
    return f", or unset {names} to use {name_of(file)}"


def _exists(file: Path | None) -> bool:
    """Return whether a file exists; a file in a folder that cannot be entered counts as missing."""
    return file is not None and os.path.exists(file)  # noqa: PTH110 - Path.exists would raise


def _add_machine_settings(configuration: Configuration, others: Sequence[Account]) -> Configuration:
    """Add the proxy and ``ca_file`` that are missing, from the first account that sets them."""
    for other in others:
        for key in _OF_MACHINE:
            change = {key: getattr(other, key)}
            if getattr(configuration.account, key) is None and change[key] is not None:
                elsewhere = {**configuration.elsewhere, key: other.setting_name(key)}
                account = evolve(configuration.account, **change)
                configuration = evolve(configuration, account=account, elsewhere=elsewhere)
    return configuration


def default_file(variables: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of the default settings file; None without a home folder."""
    if config_path := variables.get("INCOME_CONFIG"):
        return Path(config_path)
    folder = variables.get("XDG_CONFIG_HOME", "")
    try:
        # The specification of these folders says that relative ones are ignored.
        parent = Path(folder) if folder.startswith("/") else Path("~/.config").expanduser()
    except RuntimeError:
        return None
    return parent / "income-client" / "config.toml"


MAX_BYTES: Final = 64 * 1024
"""Size of the largest settings file that is read, in bytes."""
_READ: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_SHOWN_KEY: Final = re.compile(r"[a-z_]{1,30}")
_TOML_PLACE: Final = re.compile(r"\(at (line \d+, column \d+|end of document)\)")


def read_file(
    path: Path, profile: str | None, *, is_of_variable: bool = False
) -> tuple[list[Account], tuple[str, ...]]:
    """Return the settings of the named profile and of the top level, and all profiles.

    A symbolic link is followed: what counts is the owner and the mode of the opened file.
    """
    name, table = name_of(path), _read_table(path)
    value = table.pop("profiles", {})
    profiles: dict[str, Any] = value if isinstance(value, dict) else {}
    accounts = [_read_account(table, path, name)]
    if profile is not None:
        chosen = profiles.get(profile)
        if not isinstance(chosen, dict):
            names = ", ".join(map(printable, profiles))
            others = f"; there are {names}" if names else ""
            origin = f" (of {PROFILE_VARIABLE})" if is_of_variable else ""
            missing = f"{name} has no profile {printable(profile)}{origin}"
            raise ConfigurationError(f"{missing}{others}", argument="profile")
        place = f"profile {printable(profile)} of {name}"
        accounts.insert(0, _read_account(chosen, path, place))
    return accounts, tuple(profiles)


def name_of(path: Path) -> str:
    """Return a path as people write it, with ``~`` for the home folder."""
    try:
        return printable(f"~/{path.relative_to(Path.home())}")
    except (ValueError, RuntimeError):
        return printable(str(path))


def _read_table(path: Path) -> dict[str, Any]:
    name = name_of(path)
    text, status = read_content(path)
    table = parse_toml(text, name)
    if unsafe := _permission_fault(path, status, table):
        raise ConfigurationError(f"{name} {unsafe}")
    return table


def parse_toml(text: bytes, name: str) -> dict[str, Any]:
    """Return the tables of a settings file.

    Raise `ConfigurationError` without quoting its content.
    """
    try:
        return tomllib.loads(text.decode("utf-8-sig"))
    except RecursionError:
        raise ConfigurationError(
            f"{name} is not TOML of settings: it is nested too deeply"
        ) from None
    except ValueError as error:
        # The message itself may quote the file.
        place = _TOML_PLACE.search(str(error))
        fault = f"{name} is not TOML{f' ({place[1]})' if place else ''}"
        raise ConfigurationError(fault) from None


def read_content(path: Path) -> tuple[bytes, os.stat_result]:
    """Return the content of a settings file and its status; it must be a regular, short file."""
    name = name_of(path)
    try:
        descriptor = os.open(path, _READ)  # which does not wait for the writer of a pipe
        with open(descriptor, "rb") as file:  # noqa: PTH123 - the file that was looked at
            status = os.fstat(descriptor)
            is_file = stat.S_ISREG(status.st_mode)
            text = file.read(MAX_BYTES + 1) if is_file else b""
    except OSError as error:
        raise ConfigurationError(f"cannot read {name}: {reason_of(error)}") from None
    except ValueError:
        raise ConfigurationError(f"cannot read {name}: it must be the path of a file") from None
    if not is_file:
        raise ConfigurationError(f"{name} is not a regular file")
    if len(text) > MAX_BYTES:
        raise ConfigurationError(f"{name} is longer than {MAX_BYTES // 1024} KiB")
    return text, status


def _permission_fault(path: Path, status: os.stat_result, table: dict[str, Any]) -> str | None:
    """Return the fault of a settings file's owner or mode, or None."""
    if not hasattr(os, "geteuid"):
        return None  # a system without owners and modes of files
    profiles = table.get("profiles")
    tables = [table, *(profiles.values() if isinstance(profiles, dict) else ())]
    accounts = [account for account in tables if isinstance(account, dict)]
    holds, names = any(map(_holds_secret, accounts)), any(map(_names_secret, accounts))
    is_foreign, mode = not is_ours(status), status.st_mode
    is_mounted = status.st_uid == _ROOT  # as containers get their files
    quoted = shlex.quote(printable(str(path)))
    # A secret in a file of its own, or one that is typed in, is sent to the address in this file.
    faults = {
        "belongs to somebody else and holds a secret: it must be yours": holds and is_foreign,
        f"can be read by others and holds a secret: chmod 600 {quoted}": (
            holds and is_open_to_others(status)
        ),
        "belongs to somebody else and names the file of a secret: it must be yours": (
            names and is_foreign and not is_mounted
        ),
        f"can be changed by its group and names the file of a secret: chmod g-w {quoted}": (
            names and mode & stat.S_IWGRP
        ),
        f"can be changed by anybody: chmod o-w {quoted}": mode & stat.S_IWOTH,
    }
    return next((fault for fault, applies in faults.items() if applies), None)


def _holds_secret(account: dict[str, Any]) -> bool:
    proxy = str(account.get("proxy"))
    return bool(account.get("client_secret") or account.get("password") or "@" in proxy)


def _names_secret(account: dict[str, Any]) -> bool:
    return bool(account.get("client_secret_file") or account.get("password_file"))


def _read_account(table: dict[str, Any], path: Path, place: str) -> Account:
    for key, value in table.items():
        if key not in KEYS:
            # A secret may have been written in place of a key.
            unknown = f"unknown key {key}" if _SHOWN_KEY.fullmatch(key) else "an unknown key"
            raise ConfigurationError(f"{unknown} in {place}; there are {', '.join(KEYS)}")
        if not isinstance(value, str):
            raise ConfigurationError(f"{key} in {place} must be a text", argument=key)
    # Relative to the file's own folder, wherever the program is started.
    paths = {
        key: str(path.absolute().parent / _expand_home(table[key]))
        for key in _PATHS
        if table.get(key)
    }
    return Account.of_texts(table | paths, place)


def _expand_home(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _make_tls_context(ca_file: str) -> tls.SSLContext:
    path, path_text = Path(ca_file), printable(ca_file)
    context = default_context()
    try:
        if path.exists() and not path.is_file():
            raise ConfigurationError(f"{path_text} is not a regular file")  # a pipe would block
        _load_authorities(context, path)
    except tls.SSLError:
        raise ConfigurationError(f"{path_text} holds no certificate") from None
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "it must be the path of a file"
        raise ConfigurationError(f"cannot read {path_text}: {reason}") from None
    # From CPython 3.13 on, certificates must have extensions that those of many companies lack.
    context.verify_flags &= ~tls.VERIFY_X509_STRICT
    return context


def _load_authorities(context: tls.SSLContext, path: Path) -> None:
    with path.open("rb") as file:
        has_mark = file.read(len(BOM_UTF8)) == BOM_UTF8
    if has_mark:  # behind which OpenSSL finds no certificate
        text = path.read_bytes().removeprefix(BOM_UTF8).decode("ascii", "replace")
        context.load_verify_locations(cadata=text)
    else:
        context.load_verify_locations(path)
