"""Where a service is and who asks there, of what several places say; knows no file, no prompt."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from attrs import evolve, field, fields_dict, frozen

from income_client import BasicAuth, ConfigurationError, OAuth2ClientCredentials, Secret


@frozen
class Pair:
    """The two keys of a kind of credentials."""

    name: str
    """The one that may be shown."""
    secret: str
    """The one that may not."""
    words: str
    """What the secret is called."""
    make: Callable[[str, Secret], BasicAuth | OAuth2ClientCredentials]
    """What makes credentials of both."""


PAIRS: Final = (
    Pair("client_id", "client_secret", "client secret", OAuth2ClientCredentials),
    Pair("username", "password", "password", BasicAuth),
)
SECRETS: Final = tuple(pair.secret for pair in PAIRS)

_PROXY: Final = "proxy"


@frozen(kw_only=True)
class Account:
    """What one place says, or several together; None for what is not said."""

    base_url: str | None = field(default=None, repr=False)
    """The service's address; it may hold a password by mistake, and is not shown."""
    auth_url: str | None = field(default=None, repr=False)
    """Address of the token endpoint's host."""
    client_id: str | None = None
    """Client id, for tokens."""
    client_secret: Secret | None = None
    """Its secret."""
    username: str | None = None
    """User name, for Basic credentials."""
    password: Secret | None = None
    """Its password."""
    proxy: Secret | None = None
    """Address of an HTTP proxy, which may hold the proxy's own password."""
    ca_file: str | None = None
    """File with authorities that are believed besides the usual ones."""

    @classmethod
    def of(cls, said: Mapping[str, str]) -> Self:
        """Make one of texts by key; what is empty is not said."""
        secrets = {_PROXY, *SECRETS}
        fields: dict[str, Any] = {
            key: Secret(text) if key in secrets else text for key, text in said.items() if text
        }
        return cls(**fields)

    @classmethod
    def of_variables(cls, variables: Mapping[str, str]) -> Self:
        """Make one of environment variables."""
        return cls.of({key: variables.get(variable(key), "") for key in KEYS})

    @property
    def kinds(self) -> tuple[Pair, ...]:
        """The kinds of credentials of which anything is said."""
        return tuple(
            pair for pair in PAIRS if getattr(self, pair.name) or getattr(self, pair.secret)
        )

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to be said."""
        return self.base_url is not None and any(
            getattr(self, pair.name) and getattr(self, pair.secret) for pair in self.kinds
        )

    def is_elsewhere(self, other: "Account") -> bool:
        """Say whether both name an address, and not the same."""
        if self.base_url is None or other.base_url is None:
            return False
        return self.base_url.rstrip("/") != other.base_url.rstrip("/")

    def over(self, below: "Account") -> "Account":
        """Return what both say together.

        A secret stays with the name and the address that it was written beside: it
        never goes to another address, or along with another name, that somebody set.
        The way out of this machine is the same to every address.

        Args:
            below: says what this one leaves open.
        """
        if self.is_elsewhere(below):
            below = Account(proxy=below.proxy, ca_file=below.ca_file)
        for pair in PAIRS:
            mine, theirs = getattr(self, pair.name), getattr(below, pair.name)
            if (self.kinds and pair not in self.kinds) or (mine and theirs and mine != theirs):
                below = evolve(below, **{pair.name: None, pair.secret: None})
        said = {key: getattr(self, key) for key in KEYS if getattr(self, key) is not None}
        return evolve(below, **said)


KEYS: Final = tuple(fields_dict(Account))


def variable(key: str) -> str:
    """Return the environment variable of a key."""
    return f"INCOME_{key.upper()}"


def missing_secret(account: Account) -> Pair | None:
    """Return of which kind the name is there and the secret is not, if nothing else is missing."""
    match account.kinds:
        case (pair,) if account.base_url and getattr(account, pair.secret) is None:
            return pair
        case _:
            return None


def credentials(account: Account, file: str) -> BasicAuth | OAuth2ClientCredentials | str:
    """Return the credentials, or what is wrong with what was said.

    Args:
        account: all that was said.
        file: what to call the file in which it could be said.
    """
    if not account.base_url:
        return _unset("base_url", file)
    if len(account.kinds) != 1:
        names = (f"{variable(pair.name)} and {variable(pair.secret)}" for pair in PAIRS)
        keys = (f"{pair.name} and {pair.secret}" for pair in PAIRS)
        return f"set either {', or '.join(names)}; or in {file} either {', or '.join(keys)}"
    (pair,) = account.kinds
    name, secret = getattr(account, pair.name), getattr(account, pair.secret)
    if not name or secret is None:
        return _unset(pair.secret if name else pair.name, file)
    try:
        return pair.make(name, secret)
    except ConfigurationError as error:
        return error.message


def _unset(key: str, file: str) -> str:
    return f"set {variable(key)}, or {key} in {file}"
