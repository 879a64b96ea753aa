"""An emulator of another process or container, controlled as if it ran in this one."""

import inspect
import socket
from collections.abc import Callable, Coroutine, Mapping
from functools import update_wrapper
from http import HTTPStatus
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar
from urllib.parse import urlencode, urlsplit

import aiohttp
import msgspec
from yarl import URL

from income_client.errors import ConfigurationError, IncomeClientError
from income_client.settings import (
    BasicAuth,
    DownloadPolicy,
    OAuth2ClientCredentials,
    Secret,
    as_secret,
)
from income_client.system.texts import printable, reason_of

from . import control
from .access import check_token
from .api import CONTROL_PATH, credentials_of

P = ParamSpec("P")
T = TypeVar("T")

_TIMEOUT: Final = 60.0
"""Seconds for a command; most take milliseconds."""
_CALLBACK_TIMEOUT: Final = 600.0
"""Seconds for a callback, which may be sent again and again."""
_LONGEST_MESSAGE: Final = 1000
"""Characters of an error message that are shown; the emulator's own are shorter."""
_JSON: Final = msgspec.json.Encoder(decimal_format="number")


class _Refusal(msgspec.Struct):
    message: str


def _remote(
    command: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], seconds: float = _TIMEOUT
) -> Callable[Concatenate["RemoteEmulator", P], Coroutine[Any, Any, T]]:
    """Return the method that sends a command to the emulator."""
    signature = inspect.signature(command)
    emulator, *parameters = signature.parameters.values()

    async def method(self: "RemoteEmulator", /, *args: P.args, **kwargs: P.kwargs) -> T:
        arguments = signature.bind(self, *args, **kwargs).arguments
        del arguments[emulator.name]
        content = await self._send(command.__name__, arguments, seconds)
        result: T = self._decode(content, signature.return_annotation)
        return result

    remote_method: Any = update_wrapper(method, command)
    remote_method.__signature__ = signature.replace(
        parameters=[inspect.Parameter("self", emulator.kind), *parameters]
    )
    remote_method.__module__ = __name__
    remote_method.__qualname__ = f"RemoteEmulator.{command.__name__}"
    del remote_method.__wrapped__
    return method


class RemoteEmulator:
    """An `Emulator` that runs in another process, on another host or in a container.

    Its methods are the commands of `income_client.emulator.control` and wait for the network:
    ``income-client emulate`` runs such an emulator. It is for use between entering and leaving
    it, from any event loop::

        async with RemoteEmulator("http://127.0.0.1:8080") as emulator:
            await emulator.add_faults("any: 503 rate=20%")

    Args:
        url: its address.
        token: its control token, which it asks for where it runs on another host.

    Attributes:
        url: the address, without a path.
        basic: the invented user name and password that it accepts.
        oauth2: the invented client id and secret for which it gives access tokens.
        download_policy: what lets a client read files from there, and from nowhere else.

    Raises:
        ConfigurationError: an argument is invalid. Of methods: the emulator refuses what is
            asked for, or to be controlled from here.
        IncomeClientError: of methods: no emulator answers at the address.
    """

    basic: BasicAuth
    oauth2: OAuth2ClientCredentials
    download_policy: DownloadPolicy

    def __init__(self, url: str, token: Secret | str | None = None) -> None:
        if token is not None:
            token = as_secret(token)
            check_token(token, "token")
        self.url: str = _origin_of(url)
        self._authorization = None if token is None else Secret(f"Bearer {token.reveal()}")

    def __repr__(self) -> str:
        return f"<RemoteEmulator at {self.url}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Read the emulator's state, to check the connection; the emulator runs already."""
        state = await self.state()
        self.basic, self.oauth2 = credentials_of(state.seed)
        hosts = [urlsplit(url).netloc for url in (self.url, state.url, state.files_url)]
        self.download_policy = DownloadPolicy(
            allowed_hosts=tuple(dict.fromkeys(hosts)),
            require_https=False,
            allow_private_networks=True,
        )
        if self._authorization is None:
            self._authorization = self.basic.authorization()

    async def close(self) -> None:
        """Do nothing, since the emulator continues to run and no connection is kept."""

    state: Final = _remote(control.state)
    now: Final = _remote(control.now)
    rules: Final = _remote(control.rules)
    applications: Final = _remote(control.applications)
    application: Final = _remote(control.application)
    requests: Final = _remote(control.requests)
    faults: Final = _remote(control.faults)
    advance: Final = _remote(control.advance)
    change_rules: Final = _remote(control.change_rules)
    add: Final = _remote(control.add)
    replace: Final = _remote(control.replace)
    remove: Final = _remote(control.remove)
    touch: Final = _remote(control.touch)
    replace_file: Final = _remote(control.replace_file)
    revoke_tokens: Final = _remote(control.revoke_tokens)
    add_faults: Final = _remote(control.add_faults)
    clear_faults: Final = _remote(control.clear_faults)
    clear_requests: Final = _remote(control.clear_requests)
    fire_callback: Final = _remote(control.fire_callback, _CALLBACK_TIMEOUT)
    reset: Final = _remote(control.reset)

    def _decode(self, content: bytes, form: type[T]) -> T:
        try:
            return msgspec.json.decode(content, type=form)
        except ValueError:
            raise IncomeClientError(f"what answers at {self.url} is not an emulator") from None

    async def _send(self, name: str, arguments: Mapping[str, Any], seconds: float) -> bytes:
        """Send a command over a connection of its own, and return the body of a success."""
        command = control.COMMANDS[name]
        url, body, fields = f"{self.url}{CONTROL_PATH}/{name}", None, {}
        try:
            if command.method == "GET":
                url += f"?{urlencode(arguments)}" if arguments else ""
            else:
                body, fields["Content-Type"] = _JSON.encode(arguments), "application/json"
        except (TypeError, ValueError):
            raise ConfigurationError(f"{name}: an argument cannot be written as JSON") from None
        if self._authorization is not None:
            fields["Authorization"] = self._authorization.reveal()
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=_TIMEOUT)
        try:
            async with (
                aiohttp.ClientSession(trust_env=False, timeout=timeout) as session,
                session.request(
                    command.method,
                    URL(url, encoded=True),
                    data=body,
                    headers=fields,
                    allow_redirects=False,
                ) as reply,
            ):
                content = await reply.read()
        except (aiohttp.ClientError, OSError) as error:
            raise IncomeClientError(f"no emulator answers at {self.url}: {_why(error)}") from None
        if reply.status != HTTPStatus.OK:
            raise _error_of(reply.status, content)
        return content


def _origin_of(url: str) -> str:
    refused = ConfigurationError("url must be an http or https address of an emulator")
    try:
        address = URL(url)
    except (TypeError, ValueError):
        raise refused from None
    if address.scheme not in ("http", "https") or not address.host or "@" in address.authority:
        raise refused
    return str(address.origin())


def _why(error: aiohttp.ClientError | OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no reply in time"
    if isinstance(error, socket.gaierror | aiohttp.ClientConnectorDNSError):
        return "its host is not known"
    if isinstance(error, aiohttp.ClientSSLError):
        return "it does not speak TLS, or not with a certificate that is trusted here"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed before a reply"
    otherwise = "the reply is not HTTP, or not whole"
    return reason_of(error, otherwise) if isinstance(error, OSError) else otherwise


def _error_of(status: int, content: bytes) -> IncomeClientError:
    try:
        message = msgspec.json.decode(content, type=_Refusal).message
    except ValueError:
        return IncomeClientError(f"what answers there is not an emulator: status {status}")
    return ConfigurationError(printable(message[:_LONGEST_MESSAGE]))
