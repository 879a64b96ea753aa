"""An emulator of another process or container, controlled as if it ran in this one."""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from attrs import evolve, frozen
from yarl import URL

from income_client.errors import ConfigurationError, IncomeClientError, leaving
from income_client.settings import (
    BasicAuth,
    DownloadPolicy,
    OAuth2ClientCredentials,
    Secret,
    check_type,
)
from income_client.texts import reason_of

from .access import check_token
from .api import CONTROL_PATH, credentials_of
from .callback_orders import CallbackOrder
from .callbacks import USUAL_EVENT, CallbackDelivery
from .journal import JournalEntry
from .service_rules import ServiceRules
from .times import parse_bound

T = TypeVar("T")

_TIMEOUT: Final = 60.0
"""Seconds for a call; most take milliseconds."""
_CALLBACK_TIMEOUT: Final = 600.0
"""Seconds for a callback, which may be sent again and again."""
_PIECE: Final = 1000
"""Requests of the journal that are read at once: the most that there are."""
_JSON: Final = msgspec.json.Encoder(decimal_format="number")
_SUCCESSES: Final = (HTTPStatus.OK, HTTPStatus.CREATED)


class _State(msgspec.Struct):
    """What is needed of ``GET /emulator/state``."""

    seed: int
    url: str
    files_url: str


class _Clock(msgspec.Struct):
    service_time: str


class _Summary(msgspec.Struct):
    application_id: str
    updated_at: str


class _Piece(msgspec.Struct):
    requests: list[JournalEntry]
    next: int


class _Refusal(msgspec.Struct):
    message: str


@frozen
class _Link:
    """How the emulator is reached; a connection for each call, so from any event loop."""

    origin: str
    token: Secret | None = None
    basic: BasicAuth | None = None

    @asynccontextmanager
    async def send(
        self, method: str, path: str, body: Any, seconds: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and give its reply, which is a success."""
        fields = {"Content-Type": "application/json"} if body is not None else {}
        if self.token is not None:
            fields["Authorization"] = f"Bearer {self.token.reveal()}"
        elif self.basic is not None:
            fields["Authorization"] = self.basic.authorization().reveal()
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=_TIMEOUT)
        try:
            async with (
                aiohttp.ClientSession(trust_env=False, timeout=timeout) as session,
                session.request(
                    method,
                    URL(f"{self.origin}{CONTROL_PATH}{path}", encoded=True),
                    data=None if body is None else _JSON.encode(body),
                    headers=fields,
                    allow_redirects=False,
                ) as reply,
            ):
                if reply.status not in _SUCCESSES:
                    raise _error_of(reply.status, await reply.read())
                yield reply
        except (aiohttp.ClientError, OSError) as error:
            raise IncomeClientError(f"no emulator answers at {self.origin}: {_why(error)}")

    async def call(
        self, method: str, path: str, form: type[T], body: Any = None, seconds: float = _TIMEOUT
    ) -> T:
        """Send a request, and return the content of its reply."""
        with leaving():
            async with self.send(method, path, body, seconds) as reply:
                content = await reply.read()
            try:
                return msgspec.json.decode(content, type=form)
            except ValueError:
                raise IncomeClientError(f"what answers at {self.origin} is not an emulator")


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
    return ConfigurationError(message)


class RemoteFaults:
    """Misbehaviour that a remote emulator plays.

    Args:
        link: how it is reached.
    """

    def __init__(self, link: _Link) -> None:
        self._link = link

    async def add(self, *scripts: str) -> None:
        """Add faults behind those that are there; their time begins now.

        Args:
            *scripts: text as in `income_client.testing.script`.

        Raises:
            ConfigurationError: a text cannot be read.
        """
        for text in scripts:
            await self._link.call("POST", "/faults", Any, {"faults": text})

    async def clear(self) -> None:
        """Forget all faults."""
        await self._link.call("DELETE", "/faults", Any)

    async def left(self) -> list[Mapping[str, Any]]:
        """Return what is left of them, as ``GET /emulator/faults`` shows it."""
        found = await self._link.call("GET", "/faults", dict[str, Any])
        return list(found["faults"])


class RemoteEmulator:
    """An `Emulator` that runs in another process, on another host or in a container.

    Its methods are those of `Emulator` and wait for the network: ``income-client emulate``
    runs one. It is for use between entering and leaving it::

        async with RemoteEmulator("http://127.0.0.1:8080") as emulator:
            await emulator.faults.add("any: 503 rate=20%")

    Args:
        url: its address.
        token: its control token, which it asks for where it runs on another host.

    Attributes:
        url: as given.
        faults: misbehaviour to be played.
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
    faults: RemoteFaults

    def __init__(self, url: str, token: Secret | str | None = None) -> None:
        check_type("token", token, Secret, str)
        token = Secret(token) if isinstance(token, str) else token
        if token is not None:
            check_token(token, "token")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ConfigurationError("url must be an http or https address of an emulator")
        self.url: str = f"{parts.scheme}://{parts.netloc}"
        self._link = _Link(self.url, token)
        self.faults = RemoteFaults(self._link)

    def __repr__(self) -> str:
        return f"<RemoteEmulator at {self.url}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Ask it who it is; it runs already."""
        state = await self._link.call("GET", "/state", _State)
        self.basic, self.oauth2 = credentials_of(state.seed)
        hosts = [urlsplit(url).netloc for url in (self.url, state.url, state.files_url)]
        self.download_policy = DownloadPolicy(
            allowed_hosts=tuple(dict.fromkeys(hosts)),
            require_https=False,
            allow_private_networks=True,
        )
        self._link = evolve(self._link, basic=self.basic)
        self.faults = RemoteFaults(self._link)

    async def close(self) -> None:
        """Do nothing, since it runs on; here no connection is kept."""

    async def state(self) -> Mapping[str, Any]:
        """Return settings, clock and counts, as ``GET /emulator/state`` shows them."""
        return await self._link.call("GET", "/state", dict[str, Any])

    async def now(self) -> int:
        """Return the present service second."""
        return _second_of((await self._link.call("GET", "/clock", _Clock)).service_time)

    async def advance(self, seconds: float) -> None:
        """Move service time forward by ``seconds``; tokens and addresses expire by it."""
        await self._link.call("POST", "/clock", _Clock, {"advance_seconds": seconds})

    async def rules(self, **changes: Any) -> ServiceRules:
        """Return how the service behaves.

        Args:
            **changes: fields of `ServiceRules` that get other values first.
        """
        if not changes:
            return await self._link.call("GET", "/rules", ServiceRules)
        return await self._link.call("PATCH", "/rules", ServiceRules, changes)

    async def applications(self, search: str = "", limit: int = 100) -> list[Mapping[str, Any]]:
        """Return applications, the latest update first.

        Args:
            search: part of the id or of the reference.
            limit: most of them, 1000 at most.
        """
        path = f"/applications?search={quote(search, safe='')}&limit={limit}"
        found = await self._link.call("GET", path, dict[str, Any])
        return list(found["applications"])

    async def application(self, application_id: str) -> Mapping[str, Any]:
        """Return ``application_id`` as ``GET /emulator/applications/{application_id}`` does."""
        return await self._link.call("GET", _path_of(application_id), dict[str, Any])

    async def add(
        self,
        application: Mapping[str, Any],
        documents: Mapping[str, Any] | None = None,
        *,
        now: bool = False,
    ) -> str:
        """Add an application, which is served as it is given.

        Args:
            application: the content of the application response (contract section 2.2).
            documents: the content of the documents response (contract section 2.3).
            now: whether it was updated just now, and not at its ``last_updated_at``.

        Returns:
            Its id.
        """
        body = {"application": application, "documents": documents, "now": now}
        return (await self._link.call("POST", "/applications", _Summary, body)).application_id

    async def replace(
        self, application: Mapping[str, Any], documents: Mapping[str, Any] | None = None
    ) -> int:
        """Put another version in the place of an application that was added, updated now.

        Args:
            application: the new version, as in `add`.
            documents: its documents, as in `add`.

        Returns:
            The service second of the update.
        """
        body = {"application": application, "documents": documents}
        path = _path_of(str(application.get("application_id")))
        return _second_of((await self._link.call("PUT", path, _Summary, body)).updated_at)

    async def remove(self, application_id: str) -> None:
        """Remove the application ``application_id``."""
        await self._link.call("DELETE", _path_of(application_id), Any)

    async def touch(self, application_id: str) -> int:
        """Update the application ``application_id``: an amount and its place in the list change.

        Returns:
            The service second of the update.
        """
        path = f"{_path_of(application_id)}/touch"
        return _second_of((await self._link.call("POST", path, _Summary)).updated_at)

    async def replace_file(self, document_id: str) -> None:
        """Put another file in the place of that of ``document_id``; its addresses stay valid."""
        path = f"/documents/{quote(document_id, safe='')}/replace-file"
        await self._link.call("POST", path, Any)

    async def revoke_tokens(self) -> None:
        """Refuse every access token given out so far with 401."""
        await self._link.call("POST", "/tokens/revoke", Any)

    async def requests(self, after: int = 0) -> list[JournalEntry]:
        """Return what was asked so far, of the last 10,000 requests.

        Args:
            after: only those behind this number.
        """
        found: list[JournalEntry] = []
        while True:
            path = f"/requests?after={after}&limit={_PIECE}"
            piece = await self._link.call("GET", path, _Piece)
            found += piece.requests
            if len(piece.requests) < _PIECE:
                return found
            after = piece.next

    async def clear_requests(self) -> None:
        """Forget what was asked so far."""
        await self._link.call("DELETE", "/requests", Any)

    async def fire_callback(
        self,
        application_id: str | None = None,
        event_type: str | None = USUAL_EVENT,
        *,
        update: bool = False,
    ) -> CallbackDelivery:
        """Have a callback sent to where the emulator was told (contract sections 5.2 and 6).

        Args:
            application_id: what it is about; one after the other unless given.
            event_type: what it says has happened; None to leave it out.
            update: whether the application changes first, as `touch` does it.

        Returns:
            What became of it, attempt by attempt.
        """
        order = CallbackOrder(application_id=application_id, event_type=event_type, update=update)
        return await self._link.call(
            "POST", "/callbacks", CallbackDelivery, order, _CALLBACK_TIMEOUT
        )

    async def reset(self) -> None:
        """Begin anew, as when it was started: no faults, no requests, nothing changed."""
        await self._link.call("POST", "/reset", Any)


def _path_of(application_id: str) -> str:
    return f"/applications/{quote(application_id, safe='')}"


def _second_of(text: str) -> int:
    second = parse_bound(text)
    if second is None:
        raise IncomeClientError("what answers there is not an emulator")
    return second
