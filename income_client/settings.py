"""Settings of a client: frozen, validated values, and the checks of arguments.

A function called ``check_`` raises a `ConfigurationError` with the argument's name, what is
allowed, and what was given.
"""

import base64
import hashlib
import hmac
import inspect
import math
import ssl as tls
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypedDict, TypeGuard

from attrs import Attribute, evolve, field, frozen
from attrs.validators import optional

from .errors import ConfigurationError, InvalidArgumentError
from .system.hosts import read_host_pattern
from .system.texts import has_surrogate

if TYPE_CHECKING:
    from tenacity import RetryCallState
else:
    # A stand-in for those who resolve type hints at run time: tenacity takes a while to load.
    RetryCallState = Any

_FIRST_PRINTABLE: Final = 0x20
_DELETE: Final = 0x7F
_MAX_SHOWN: Final = 40
_SERVICE_DIGEST_BYTES: Final = 4


def invalid(
    name: str, allowed: str, value: object, *, may_show: bool = False
) -> ConfigurationError:
    """Return the error of an invalid argument: its name, the allowed values, and the value.

    Of a value that may be private, only the type is shown, unless it is a number.
    """
    may_show = may_show or value is None or isinstance(value, bool | int | float)
    value_text = repr(value)[:_MAX_SHOWN] if may_show else f"of type {type(value).__name__}"
    return wrong(name, f"must be {allowed}, not {value_text}")


def wrong(name: str, detail: str) -> ConfigurationError:
    """Return the error of an invalid argument: its name, and the fault."""
    return InvalidArgumentError(f"{name} {detail}", argument=name, detail=detail)


def check_count(name: str, value: object) -> int:
    """Return an option's value if it is a whole number of 1 or more, and not a bool."""
    if type(value) is not int or value < 1:
        raise invalid(name, "a whole number, 1 or more", value)
    return value


def check_whole(name: str, value: object) -> int:
    """Return an option's value if it is a whole number of 0 or more, and not a bool."""
    if type(value) is not int or value < 0:
        raise invalid(name, "a whole number, 0 or more", value)
    return value


def check_positive(name: str, value: object) -> float:
    """Return an option's value if it is a finite number above 0."""
    if not is_number(value) or value <= 0:
        raise invalid(name, "a finite number above 0", value)
    return float(value)


def check_not_negative(name: str, value: object) -> float:
    """Return an option's value if it is a finite number of 0 or more."""
    if not is_number(value) or value < 0:
        raise invalid(name, "a finite number, 0 or more", value)
    return float(value)


def check_flag(name: str, value: object) -> bool:
    """Return an option's value if it is True or False."""
    if not isinstance(value, bool):
        raise invalid(name, "True or False", value)
    return value


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise `ConfigurationError` unless the value is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        is_text = isinstance(value, str)
        raise invalid(name, " or ".join(map(repr, choices)), value, may_show=is_text)


def check_type(name: str, value: object, *types: type) -> None:
    """Raise `ConfigurationError` unless the value is None or has one of the types."""
    if value is not None and not isinstance(value, types):
        raise invalid(name, " or ".join(cls.__name__ for cls in types), value)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a finite number, and not a bool."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that is too large for a float
        return False


def is_plain_function(value: object) -> bool:
    """Return whether a call runs the function to its end, without ``await`` or iteration."""
    while isinstance(value, partial):
        value = value.func
    # Of the class: a class itself is called by its metaclass.
    called = (value, type(value).__call__) if callable(value) else ()
    return bool(called) and not any(map(_is_deferred, called))


def _is_deferred(function: object) -> bool:
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    return any(is_kind(function) for is_kind in kinds)


def validated(check: Callable[[str, object], object]) -> Callable[..., None]:
    """Turn a check of an argument into an attrs validator."""

    def validate(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
        check(attribute.alias or attribute.name, value)

    return validate


counting: Final = validated(check_count)
positive: Final = validated(check_positive)
not_negative: Final = validated(check_not_negative)
whole: Final = validated(check_whole)
flag: Final = validated(check_flag)


class Secret:
    """A text that only `reveal` shows: masked in repr, str and format, never pickled.

    >>> password = Secret("correct horse")
    >>> f"{password} {password!r}"
    "*** Secret('***')"
    >>> password.reveal()
    'correct horse'

    Args:
        text: the secret itself.

    Raises:
        ConfigurationError: it is not a str.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        is_text = isinstance(text, str)  # untyped code may give anything
        if not is_text:
            del text  # crash reporters send the variables of frames
            raise InvalidArgumentError("the text of a Secret must be a str", argument="text")
        self._text = text

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        # Undecodable bytes of the environment become lone surrogates, which UTF-8 cannot encode.
        mine, theirs = (text.encode("utf-8", "surrogatepass") for text in (self._text, other._text))
        return hmac.compare_digest(mine, theirs)

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled")


_BYTE_ORDER_MARK: Final = "\ufeff"


def _is_control(char: str) -> bool:
    code = ord(char)
    return code < _FIRST_PRINTABLE or code == _DELETE


def _fault_in(text: object, *, forbidden: str = "") -> str | None:
    if isinstance(text, Secret):
        text = text.reveal()
    if not isinstance(text, str) or not text:
        return "is empty or not a str"
    has_control = any(map(_is_control, text))
    if has_control or has_surrogate(text) or any(char in text for char in forbidden):
        return "holds a character that a Basic credential cannot carry"
    return None


def _pair_fault(fields: tuple[str, str], name: object, secret: object) -> ConfigurationError | None:
    """Return the fault of a Basic credential, without any part of the credential; None if valid."""
    name_fault = "must be a str" if isinstance(name, Secret) else _fault_in(name, forbidden=":")
    if name_fault is not None:
        return wrong(fields[0], name_fault)
    # What a person copied or an editor added, and nobody sees.
    if isinstance(name, str) and not name.isprintable():
        return wrong(fields[0], "holds an invisible character")
    if _BYTE_ORDER_MARK in as_secret(secret).reveal():
        return wrong(fields[1], "holds a byte order mark, which is invisible")
    secret_fault = _fault_in(secret)
    return None if secret_fault is None else wrong(fields[1], secret_fault)


def as_secret(value: object) -> Secret:
    """Return a text as a `Secret`; anything else than a text becomes an empty one.

    A constructor that does this first holds no plain secret when it raises: crash reporters send
    the variables of frames.
    """
    if isinstance(value, Secret):
        return value
    return Secret(value if isinstance(value, str) else "")


def _basic_credentials(name: str, secret: Secret) -> Secret:
    pair = f"{name}:{secret.reveal()}".encode()
    return Secret("Basic " + base64.b64encode(pair).decode())


@frozen(init=False)
class BasicAuth:
    """User name and password, sent with every request (contract section 5.1).

    Args:
        username: as issued; holds no colon.
        password: as issued, a str or a `Secret`.

    Raises:
        ConfigurationError: either is empty or holds a control character.
    """

    username: str
    password: Secret

    def __init__(self, username: str, password: str | Secret) -> None:
        fault = _pair_fault(("username", "password"), username, password)
        if fault is not None:
            del username, password  # crash reporters send the variables of frames
            raise fault
        self.__attrs_init__(username, as_secret(password))

    def authorization(self) -> Secret:
        """Return the value of the Authorization header."""
        return _basic_credentials(self.username, self.password)


@frozen(init=False)
class OAuth2ClientCredentials:
    """Client id and secret, exchanged for access tokens (contract section 5.1).

    Args:
        client_id: as issued; holds no colon.
        client_secret: as issued, a str or a `Secret`.

    Raises:
        ConfigurationError: either is empty or holds a control character.
    """

    client_id: str
    client_secret: Secret

    def __init__(self, client_id: str, client_secret: str | Secret) -> None:
        fault = _pair_fault(("client_id", "client_secret"), client_id, client_secret)
        if fault is not None:
            del client_id, client_secret  # crash reporters send the variables of frames
            raise fault
        self.__attrs_init__(client_id, as_secret(client_secret))

    def authorization(self) -> Secret:
        """Return the value of the Authorization header of the token request."""
        return _basic_credentials(self.client_id, self.client_secret)


Auth = BasicAuth | OAuth2ClientCredentials
AuthFunction = Callable[[], Auth | Awaitable[Auth]]
"""Function that returns the current credentials, or a coroutine of them."""


def service_digest(base_url: str, auth: Auth | AuthFunction) -> str:
    """Return a text that tells services and their accounts apart, and shows neither."""
    match auth:
        case BasicAuth():
            account = auth.username
        case OAuth2ClientCredentials():
            account = auth.client_id
        case _:
            account = ""
    content = f"{base_url.rstrip('/')} {account}".encode()
    return hashlib.blake2b(content, digest_size=_SERVICE_DIGEST_BYTES).hexdigest()


@frozen(kw_only=True, cache_hash=True, repr=False)
class Timeouts:
    """Time limits of calls and connections, in seconds.

    A timeout left out, or None, has its default in a new client and stays unchanged in
    ``IncomeClient.with_options``. Two values are equal if they set the same timeouts alike.

    >>> Timeouts(deadline=60)
    Timeouts(deadline=60)
    >>> Timeouts(deadline=60).read
    30.0
    >>> Timeouts(deadline=0)
    Traceback (most recent call last):
    income_client.errors.InvalidArgumentError: deadline must be a finite number above 0, not 0

    Raises:
        ConfigurationError: a timeout is not a finite number above 0.
    """

    _connect: float | None = field(default=None, alias="connect", validator=optional(positive))
    _read: float | None = field(default=None, alias="read", validator=optional(positive))
    _deadline: float | None = field(default=None, alias="deadline", validator=optional(positive))

    @property
    def connect(self) -> float:
        """Seconds for opening a connection, TLS included; 10 by default."""
        return 10.0 if self._connect is None else self._connect

    @property
    def read(self) -> float:
        """Seconds until the head of a reply is complete, then between pieces of its body.

        30 by default.
        """
        return 30.0 if self._read is None else self._read

    @property
    def deadline(self) -> float:
        """Seconds for a whole call: token, queue, attempts, pauses and body; 120 by default.

        Downloads of files are not bound by the deadline.
        """
        return 120.0 if self._deadline is None else self._deadline

    def __repr__(self) -> str:
        arguments = (f"{name}={seconds!r}" for name, seconds in self._set_seconds().items())
        return f"Timeouts({', '.join(arguments)})"

    def _set_seconds(self) -> dict[str, float]:
        pairs = (("connect", self._connect), ("read", self._read), ("deadline", self._deadline))
        return {name: seconds for name, seconds in pairs if seconds is not None}


def merged(timeouts: Timeouts, base: Timeouts) -> Timeouts:
    """Return the timeouts that are set, and those of ``base`` for the others."""
    return evolve(base, **timeouts._set_seconds())  # noqa: SLF001 - of this module


def _check_strategy(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    # A class would be called to make a strategy, not to ask one.
    if value is not None and (isinstance(value, type) or not is_plain_function(value)):
        raise invalid(attribute.name, "a plain function or None", value)


@frozen(kw_only=True)
class RetryPolicy:
    """Rules for retrying failed requests.

    A pause is drawn evenly between 0 and ``base * 2**(attempt - 1)``, at most
    ``max_delay``, and never shorter than the service asked for. ``wait`` and ``stop`` replace
    this by strategies of tenacity or your own; the limits of the other fields hold all the same:

    >>> from tenacity import stop_after_attempt, stop_after_delay, wait_fixed, wait_random
    >>> policy = RetryPolicy(
    ...     wait=wait_fixed(2) + wait_random(0, 1),
    ...     stop=stop_after_attempt(5) | stop_after_delay(60),
    ... )
    >>> RetryPolicy(wait=2)
    Traceback (most recent call last):
    income_client.errors.InvalidArgumentError: wait must be a plain function or None, not 2

    Raises:
        ConfigurationError: a figure is out of its range.
    """

    max_attempts: int = field(default=3, validator=counting)
    """Largest number of requests for one call, the first included; 1 turns retries off.


    A request that failed because the pool's idle connection was dead does not count.
    """
    base_delay: float = field(default=0.05, validator=not_negative)
    """``base`` in seconds for the pause after a failure of the connection or the service."""
    throttled_delay: float = field(default=1.0, validator=not_negative)
    """``base`` in seconds for the pause after a 429 without Retry-After."""
    max_delay: float = field(default=20.0, validator=not_negative)
    """Longest pause in seconds that the client chooses itself."""
    max_retry_after: float = field(default=60.0, validator=not_negative)
    """Longest Retry-After in seconds that the client waits for; a longer one raises the error."""
    budget: int = field(default=500, validator=whole)
    """Points that all calls of a client share for their retries.


    A retry costs 5 points, or 10 after a timeout. A successful retry returns its cost, and any
    other success adds 1 point. Without points left, failed requests are not retried.
    """
    wait: "Callable[[RetryCallState], float] | None" = field(
        default=None, validator=_check_strategy
    )
    """Function that returns a pause in seconds, in place of ``base_delay`` and
    ``throttled_delay``.


    A failed request calls the function with a ``tenacity.RetryCallState``, whose ``outcome`` has
    the error.
    """
    stop: "Callable[[RetryCallState], bool] | None" = field(default=None, validator=_check_strategy)
    """Function that returns True to stop retrying, in place of ``max_attempts``; called as
    ``wait`` is."""


def _tls_context(_instance: Any, attribute: "Attribute[Any]", value: object) -> None:
    check_type(attribute.name, value, tls.SSLContext)


def _list_hosts(hosts: Iterable[str]) -> tuple[str, ...]:
    value: object = hosts
    is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes)
    entries = tuple(hosts) if is_list else ()
    if not entries:
        raise invalid("allowed_hosts", "a list of one host or more", hosts)
    return entries


def _check_hosts(_instance: Any, _attribute: "Attribute[Any]", value: tuple[object, ...]) -> None:
    for entry in value:
        read_host_pattern(entry)


@frozen(kw_only=True)
class DownloadPolicy:
    """Rules for downloads of document files: allowed hosts, sizes and rates.

    An entry of ``allowed_hosts`` is a host name, an IP address, or ``*.`` and a
    domain for every host below it. A port behind it allows this one instead of
    the scheme's own, ``:*`` any. An entry for this machine itself (``localhost``,
    ``127.0.0.1``, ``[::1]``) allows any port, unless it names one.

    Raises:
        ConfigurationError: a field is invalid.
    """

    allowed_hosts: tuple[str, ...] = field(
        default=("*.amazonaws.com",), converter=_list_hosts, validator=_check_hosts
    )
    """Hosts from which files are downloaded (contract section 2.3)."""
    require_https: bool = field(default=True, validator=flag)
    """Whether a URL with plain http is refused."""
    allow_private_networks: bool = field(default=False, validator=flag)
    """Whether hosts may be in private networks, and on this machine if named as such."""
    max_bytes: int = field(default=2**30, validator=counting)
    """Size of the largest allowed file, in bytes."""
    max_redirects: int = field(default=3, validator=whole)
    """Redirects followed in a row; the URL of each is checked like the first one."""
    minimum_rate: float = field(default=1024.0, validator=not_negative)
    """Bytes a second, averaged over 30 seconds, below which the download gives a connection up; 0
    turns the check off."""
    ssl: tls.SSLContext | None = field(default=None, validator=_tls_context)
    """A TLS context in place of the default one; downloads do not use the client's context."""


class DeprecatedOptions(TypedDict, total=False):
    """Keyword arguments of clients that will be removed in version 0.4."""

    max_response_bytes: int
    user_agent: str | None
    trace_configs: Sequence[Any]
    telemetry: bool


DEPRECATED_OPTIONS: Final = {
    "max_response_bytes": "no limit of your own: up to 16 MiB of a reply are read",
    "telemetry": "OpenTelemetry's own settings, such as a sampler",
    "trace_configs": "session=aiohttp.ClientSession(trace_configs=...)",
    "user_agent": 'session=aiohttp.ClientSession(headers={"User-Agent": ...})',
}
"""Code that replaces each deprecated option."""


class DeprecatedPollOptions(TypedDict, total=False):
    """Keyword arguments of ``poll`` that will be removed in version 0.4."""

    lease: float


DEPRECATED_POLL_OPTIONS: Final = {"lease": "standby=SECONDS"}
"""Code that replaces each deprecated option of ``poll``."""
