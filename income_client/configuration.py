"""A client's settings from environment variables and from a configuration file in TOML.

An option given in code or on the command line comes before a named profile, that before the
environment, and that before the file's top level. A file whose path is given comes before the
environment as well. INCOME_PROFILE names a profile as an option does, where none is given.
"""

import os
import re
import shlex
import ssl as tls
import stat
import tomllib
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypedDict, TypeVar

from attrs import evolve, field, fields_dict, frozen

from .clock import Clock
from .disk import is_open_to_others, is_ours
from .errors import ConfigurationError
from .http.credentials import SecretFileError
from .http.tokens import TokenStore
from .http.transport import BorrowedSession, TraceConfig
from .settings import (
    Auth,
    BasicAuth,
    DownloadPolicy,
    OAuth2ClientCredentials,
    OnEvent,
    RetryPolicy,
    Secret,
    Timeouts,
    check_type,
    wrong,
)
from .texts import printable, reason_of

C = TypeVar("C")


class SyncClientOptions(TypedDict, total=False):
    """Keyword arguments of `SyncIncomeClient` other than its addresses and credentials."""

    timeouts: Timeouts | None
    retry: RetryPolicy | None
    concurrency: int
    max_rate: float | None
    token_store: TokenStore | None
    service_timezone: tzinfo
    downloads: DownloadPolicy | None
    max_response_bytes: int
    user_agent: str | None
    proxy: str | None
    ssl: tls.SSLContext | None
    trace_configs: Sequence[TraceConfig]
    keep_error_bodies: bool
    on_event: OnEvent | None
    telemetry: bool
    clock: Clock | None


class ClientOptions(SyncClientOptions, total=False):
    """Keyword arguments of `IncomeClient` other than its addresses and credentials."""

    session: BorrowedSession | None


def check_options(function: str, options: SyncClientOptions) -> None:
    """Raise for an option that there is not, before anything secret is read."""
    unknown = options.keys() - ClientOptions.__annotations__.keys()
    if unknown:
        raise ConfigurationError(f"{function} has no option {printable(min(unknown))}")


class CredentialKeys(NamedTuple):
    """The keys of a kind of credentials; the secret is set itself, or the file that holds it."""

    name: str
    secret: str
    secret_file: str
    make: type[BasicAuth] | type[OAuth2ClientCredentials]

    @property
    def secrets(self) -> frozenset[str]:
        """The two keys of the secret."""
        return frozenset({self.secret, self.secret_file})

    @property
    def keys(self) -> frozenset[str]:
        """All keys."""
        return self.secrets | {self.name}


CREDENTIALS: Final = (
    CredentialKeys("client_id", "client_secret", "client_secret_file", OAuth2ClientCredentials),
    CredentialKeys("username", "password", "password_file", BasicAuth),
)
_PATHS: Final = ("ca_file", "client_secret_file", "password_file")
_SECRETS: Final = frozenset({"client_secret", "password", "proxy"})


@frozen(kw_only=True)
class Account:
    """What one place says of the service and of the credentials; None for what it leaves out."""

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
    def of_texts(cls, texts: Mapping[str, str]) -> Self:
        """Make one of texts by key; an empty one counts as left out."""
        fields: dict[str, Any] = {
            key: Secret(text) if key in _SECRETS else text for key, text in texts.items() if text
        }
        return cls(**fields)

    @classmethod
    def of_variables(cls, variables: Mapping[str, str]) -> Self:
        """Make one of environment variables."""
        return cls.of_texts({key: variables.get(variable(key), "") for key in KEYS})

    @property
    def given(self) -> dict[str, str | Secret]:
        """What is set, by key."""
        values = {key: getattr(self, key) for key in KEYS}
        return {key: value for key, value in values.items() if value is not None}

    @property
    def kinds(self) -> tuple[CredentialKeys, ...]:
        """The kinds of credentials of which a key is set."""
        given = self.given
        return tuple(one for one in CREDENTIALS if not one.keys.isdisjoint(given))

    @property
    def is_complete(self) -> bool:
        """Whether a client can be made of it."""
        given = self.given
        has_both = any(
            one.name in given and not one.secrets.isdisjoint(given) for one in self.kinds
        )
        return has_both and self.base_url is not None

    def is_for_another_address(self, address: str | None) -> bool:
        """Say whether it names an address, and not this one."""
        if self.base_url is None or address is None:
            return False
        return self.base_url.rstrip("/") != address.rstrip("/")


KEYS: Final = tuple(fields_dict(Account))
PROFILE_VARIABLE: Final = "INCOME_PROFILE"


def variable(key: str) -> str:
    """Return the environment variable of a key."""
    return f"INCOME_{key.upper()}"


@frozen
class FileCredentials:
    """Reads the secret from its file each time it is called, as containers mount and rotate it."""

    kind: CredentialKeys
    name: str
    path: Path

    def __call__(self) -> Auth:
        """Return the credentials of now, for `IncomeClient` to ask for."""
        try:
            return self.read()
        except ConfigurationError as error:
            raise SecretFileError(error.message)

    def read(self) -> Auth:
        """Return the credentials of now; the line's end behind the secret is no part of it."""
        content, _ = read_content(self.path)
        try:
            secret = content.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise ConfigurationError(f"{name_of(self.path)} is not text in UTF-8")
        if not secret:
            raise ConfigurationError(f"{name_of(self.path)} is empty")
        try:
            return self.kind.make(self.name, secret)
        except ConfigurationError as error:
            if error.argument == self.kind.name:
                raise
            raise ConfigurationError(f"{name_of(self.path)} {error.detail}")


@frozen(kw_only=True)
class Configuration:
    """What all places say together."""

    account: Account
    sources: Mapping[str, str]
    """For each key that is set: its variable, or the name of the file."""
    file: str | None = None
    """Name of the file that could say more, for messages."""
    unused: str | None = None
    """The place whose credentials are not used, since they are for another address."""
    profile: str | None = None
    profiles: tuple[str, ...] = ()
    """Profiles of the file that was read."""

    def auth(self) -> Auth | FileCredentials:
        """Return the credentials, or a function that reads them from their file each time.

        Raises a `ConfigurationError` that says what is missing or cannot be read.
        """
        try:
            return self._make_auth()
        except ConfigurationError as error:
            raise self._add_advice(self.name_setting(error))

    def _make_auth(self) -> Auth | FileCredentials:
        account = self.account
        if not account.base_url:
            raise self._missing_setting_error("base_url")
        if len(account.kinds) != 1:
            names = (f"{variable(one.name)} and {variable(one.secret)}" for one in CREDENTIALS)
            keys = (f"{one.name} and {one.secret}" for one in CREDENTIALS)
            in_file = (
                "" if self.file is None else f"; or in {self.file} either {', or '.join(keys)}"
            )
            raise ConfigurationError(f"set either {', or '.join(names)}{in_file}")
        (kind,) = account.kinds
        name, secret = getattr(account, kind.name), getattr(account, kind.secret)
        path: str | None = getattr(account, kind.secret_file)
        if not name or (secret is None and path is None):
            raise self._missing_setting_error(kind.secret if name else kind.name)
        if path is None:
            return kind.make(name, secret)
        if secret is not None:
            other = self.setting_name(kind.secret_file)
            raise wrong(kind.secret, f"and {other} are both set: unset one of them")
        credentials = FileCredentials(kind, name, Path(path).absolute())
        try:
            credentials.read()
        except ConfigurationError as error:
            if error.argument == kind.name:
                raise
            raise wrong(kind.secret_file, f"cannot be used: {error.message}")
        return credentials

    def _missing_setting_error(self, key: str) -> ConfigurationError:
        in_file = "" if self.file is None else f", or {key} in {self.file}"
        return ConfigurationError(f"set {variable(key)}{in_file}", argument=key)

    def _add_advice(self, error: ConfigurationError) -> ConfigurationError:
        fault = error.message
        if self.profile is None and self.profiles and not self.account.is_complete:
            names = ", ".join(map(printable, self.profiles))
            fault += f", or choose a profile of that file with {PROFILE_VARIABLE}: {names}"
        if self.unused is not None and not self.account.is_complete:
            if self.profile is None:
                fault += f" (the credentials of {self.unused} are for another address)"
            else:
                own = f"profile {self.profile} has another address, so it needs its own credentials"
                fault = f"{own}: {fault}" if self.account.kinds else own
        return ConfigurationError(fault, argument=error.argument, detail=error.detail)

    def name_setting(self, error: ConfigurationError) -> ConfigurationError:
        """Return an error that names its setting as it is named where it is set."""
        if error.argument is None or error.argument not in self.sources:
            return error.again()
        message = f"{self.setting_name(error.argument)} {error.detail}"
        return ConfigurationError(message, argument=error.argument, detail=error.detail)

    def setting_name(self, key: str) -> str:
        """Return how a message names a key that is set: its variable, or the key and its file."""
        source = self.sources[key]
        return source if source == variable(key) else f"{key} in {source}"

    def tls(self) -> tls.SSLContext | None:
        """Return a context that trusts the authorities of ``ca_file`` too; None for the default."""
        if self.account.ca_file is None:
            return None
        try:
            return _make_tls_context(self.account.ca_file)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{self.setting_name('ca_file')}: {error.message}", argument="ca_file"
            )

    def add_to_options(self, options: SyncClientOptions) -> None:
        """Add proxy and authorities to options of a client, which take precedence."""
        if "ssl" not in options and (context := self.tls()) is not None:
            options["ssl"] = context
            downloads: object = options.get("downloads") or DownloadPolicy()
            if isinstance(downloads, DownloadPolicy) and downloads.ssl is None:
                options["downloads"] = evolve(downloads, ssl=context)
        if "proxy" not in options and self.account.proxy is not None:
            options["proxy"] = self.account.proxy.reveal()

    def make_client(self, make: Callable[..., C], options: SyncClientOptions) -> C:
        """Make a client of these settings and of options, which take precedence."""
        auth = self.auth()
        self.add_to_options(options)
        address = self.account.base_url or ""
        try:
            return make(address, auth=auth, auth_url=self.account.auth_url, **options)
        except ConfigurationError as error:
            raise error if self.file is None else self.name_setting(error)


def from_variables(variables: Mapping[str, str] = os.environ) -> Configuration:
    """Return what the environment says."""
    account = Account.of_variables(variables)
    return Configuration(account=account, sources={key: variable(key) for key in account.given})


def from_file(
    profile: str | None = None,
    path: str | os.PathLike[str] | None = None,
    variables: Mapping[str, str] = os.environ,
) -> Configuration:
    """Return what the environment and a configuration file say together.

    Without a path, the file is that of INCOME_CONFIG or the user's own, which is not read
    where the environment is complete and names no other. Without a profile, it is that of
    INCOME_PROFILE.
    """
    check_type("profile", profile, str)
    check_type("path", path, str, os.PathLike)
    of_variable = variables.get(PROFILE_VARIABLE) or None
    is_of_variable = profile is None and of_variable is not None
    profile = of_variable if profile is None else profile
    environment = Account.of_variables(variables)
    own = _own_file(variables)
    given = None if path is None else Path(path)
    found = given or _file_to_read(profile, environment, own, variables)
    top, chosen, profiles = (
        FileSettings()
        if found is None
        else read_file(found, profile, is_of_variable=is_of_variable)
    )
    has_own = bool(chosen.kinds) or chosen.auth_url is not None
    is_ambiguous = has_own and chosen.base_url is None
    if path is None and is_ambiguous and environment.is_for_another_address(top.base_url):
        raise ConfigurationError(
            f"{variable('base_url')} is set to another address than the one that profile "
            f"{profile} is for: unset it, or set base_url in the profile",
            argument="base_url",
        )
    shown = found or own
    name = "a configuration file" if shown is None else name_of(shown)
    lower = [(None, environment), (name, top)]
    if path is not None:
        lower.reverse()
    merged = _merge_layers([(name, chosen), *lower])
    return evolve(merged, file=name, profile=profile, profiles=profiles)


_FOR_ANY_ADDRESS: Final = frozenset({"proxy", "ca_file"})


def _merge_layers(layers: Sequence[tuple[str | None, Account]]) -> Configuration:
    """Return what all layers say together, each with the name of its file, the first one first.

    The first that sets a key wins. A layer adds no credentials of another kind or name, and for
    another address none at all: no secret is sent to an address, or with a name, that was set
    somewhere else.
    """
    account, sources, unused = Account(), dict[str, str](), None
    for place, layer in layers:
        added: dict[str, Any] = layer.given
        if layer.is_for_another_address(account.base_url):
            added = {key: value for key, value in added.items() if key in _FOR_ANY_ADDRESS}
            unused = (place or "the environment") if layer.kinds else unused
        for kind in CREDENTIALS:
            name, other = getattr(account, kind.name), getattr(layer, kind.name)
            has_another_kind = account.kinds and kind not in account.kinds
            if has_another_kind or (name and other and name != other):
                added = {key: value for key, value in added.items() if key not in kind.keys}
            if not kind.secrets.isdisjoint(sources):
                added = {key: value for key, value in added.items() if key not in kind.secrets}
        added = {key: value for key, value in added.items() if key not in sources}
        sources |= {key: place or variable(key) for key in added}
        account = evolve(account, **added)
    return Configuration(account=account, sources=sources, unused=unused)


def default_file(variables: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file that is read unless another is named; None without a home."""
    named = variables.get("INCOME_CONFIG")
    return Path(named) if named else _own_file(variables)


def _own_file(variables: Mapping[str, str]) -> Path | None:
    """Return where the user's own file is, whether it exists or not; None without a home."""
    folder = variables.get("XDG_CONFIG_HOME", "")
    try:
        # The specification of these folders says that relative ones are ignored.
        parent = Path(folder) if folder.startswith("/") else Path("~/.config").expanduser()
    except RuntimeError:
        return None
    return parent / "income-client" / "config.toml"


def _file_to_read(
    profile: str | None, environment: Account, own: Path | None, variables: Mapping[str, str]
) -> Path | None:
    if named := variables.get("INCOME_CONFIG"):
        return Path(named)
    if profile is not None:
        return own
    return own if own is not None and not environment.is_complete and own.exists() else None


MAX_BYTES: Final = 64 * 1024
"""Length of the longest settings file that is read."""
_MAX_DEPTH: Final = 100
_READ: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_SHOWN_KEY: Final = re.compile(r"[a-z_]{1,30}")
_TOML_PLACE: Final = re.compile(r"\(at (line \d+, column \d+|end of document)\)")


class FileSettings(NamedTuple):
    """What a file says at its top level and in the chosen profile, and the profiles that it has."""

    top: Account = Account()
    chosen: Account = Account()
    profiles: tuple[str, ...] = ()


def read_file(path: Path, profile: str | None, *, is_of_variable: bool = False) -> FileSettings:
    """Return what a file says at its top level, and what it says in a profile.

    A symbolic link is followed: what counts is the owner and the mode of the opened file.
    """
    table = _read_table(path)
    found = table.pop("profiles", {})
    profiles: dict[str, Any] = found if isinstance(found, dict) else {}
    top = _read_account(table, path, "")
    if profile is None:
        return FileSettings(top, profiles=tuple(profiles))
    chosen = profiles.get(profile)
    if not isinstance(chosen, dict):
        names = ", ".join(map(printable, profiles))
        others = f"; there are {names}" if names else ""
        origin = f" (of {PROFILE_VARIABLE})" if is_of_variable else ""
        missing = f"{name_of(path)} has no profile {printable(profile)}{origin}"
        raise ConfigurationError(f"{missing}{others}", argument="profile")
    account = _read_account(chosen, path, f" of profile {printable(profile)}")
    return FileSettings(top, account, tuple(profiles))


def name_of(path: Path) -> str:
    """Return a path as people write it, the home folder as ``~``."""
    try:
        return printable(f"~/{path.relative_to(Path.home())}")
    except (ValueError, RuntimeError):
        return printable(str(path))


def _read_table(path: Path) -> dict[str, Any]:
    name = name_of(path)
    text, status = read_content(path)
    table = parse_toml(text, name)
    if unsafe := _permission_fault(path, status, holds_secret=_holds_secret(table)):
        raise ConfigurationError(f"{name} {unsafe}")
    return table


def parse_toml(text: bytes, name: str) -> dict[str, Any]:
    """Return the tables of a settings file; raise ConfigurationError, which quotes nothing."""
    if _bracket_depth(text) > _MAX_DEPTH:
        raise ConfigurationError(f"{name} is not TOML of settings: it is nested too deeply")
    try:
        return tomllib.loads(text.decode())
    except ValueError as error:
        # The message itself may quote the file.
        place = _TOML_PLACE.search(str(error))
        fault = f"{name} is not TOML{f' ({place[1]})' if place else ''}"
        raise ConfigurationError(fault)


def _bracket_depth(text: bytes) -> int:
    """Return how deep brackets nest, roughly; a parser at the stack's end breaks finalizers too."""
    depth = deepest = 0
    for bracket in re.findall(rb"[][{}]", text):
        depth = depth + 1 if bracket in b"[{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


def read_content(path: Path) -> tuple[bytes, os.stat_result]:
    """Return what a settings file holds, and its status; it must be a regular and short one."""
    name = name_of(path)
    try:
        descriptor = os.open(path, _READ)  # which does not wait for the writer of a pipe
        with open(descriptor, "rb") as file:  # noqa: PTH123 - the file that was looked at
            status = os.fstat(descriptor)
            is_file = stat.S_ISREG(status.st_mode)
            text = file.read(MAX_BYTES + 1) if is_file else b""
    except OSError as error:
        raise ConfigurationError(f"cannot read {name}: {reason_of(error)}")
    except ValueError:
        raise ConfigurationError(f"cannot read {name}: it must be the path of a file")
    if not is_file:
        raise ConfigurationError(f"{name} is not a regular file")
    if len(text) > MAX_BYTES:
        raise ConfigurationError(f"{name} is longer than {MAX_BYTES // 1024} KiB")
    return text, status


def _holds_secret(table: dict[str, Any]) -> bool:
    profiles = table.get("profiles")
    tables = [table, *(profiles.values() if isinstance(profiles, dict) else ())]
    return any(
        one.get("client_secret") or one.get("password") or "@" in str(one.get("proxy"))
        for one in tables
        if isinstance(one, dict)
    )


def _permission_fault(path: Path, status: os.stat_result, *, holds_secret: bool) -> str | None:
    """Say why the owner or mode of a file forbids its use."""
    if not hasattr(os, "geteuid"):
        return None  # a system without owners and modes of files
    if holds_secret and not is_ours(status):
        return "belongs to somebody else and holds a secret: it must be yours"
    if holds_secret and is_open_to_others(status):
        return f"can be read by others and holds a secret: chmod 600 {_quote_path(path)}"
    if status.st_mode & stat.S_IWOTH:
        # The secret may come from the environment, and would go where this file says.
        return f"can be changed by anybody: chmod o-w {_quote_path(path)}"
    return None


def _quote_path(path: Path) -> str:
    name = name_of(path)
    is_plain = re.fullmatch(r"~?[A-Za-z0-9_./-]+", name)
    return name if is_plain else shlex.quote(printable(str(path)))


def _read_account(table: dict[str, Any], path: Path, whose: str) -> Account:
    name = name_of(path)
    for key, value in table.items():
        if key not in KEYS:
            # A secret may have been written in place of a key.
            unknown = f"unknown key {key}" if _SHOWN_KEY.fullmatch(key) else "an unknown key"
            raise ConfigurationError(f"{unknown}{whose} in {name}; there are {', '.join(KEYS)}")
        if not isinstance(value, str):
            raise ConfigurationError(f"{key}{whose} in {name} must be a text", argument=key)
    # Relative to the file's own folder, wherever the program is started.
    paths = {
        key: str(path.absolute().parent / _expand_home(table[key]))
        for key in _PATHS
        if table.get(key)
    }
    return Account.of_texts(table | paths)


def _expand_home(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _make_tls_context(ca_file: str) -> tls.SSLContext:
    context = tls.create_default_context()
    path, shown = Path(ca_file), printable(ca_file)
    try:
        if path.exists() and not path.is_file():
            raise ConfigurationError(f"{shown} is not a regular file")  # a pipe would block
        context.load_verify_locations(path)
    except tls.SSLError:
        raise ConfigurationError(f"{shown} holds no certificate")
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "it must be the path of a file"
        raise ConfigurationError(f"cannot read {shown}: {reason}")
    return context
