"""A token endpoint, an API that takes its tokens, and a store in which processes share one."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from attrs import define, field

from income_client import StoredToken
from income_client.http.endpoints import Request, Response, addresses
from income_client.http.faults import SILENT
from income_client.http.transport import SocketLimits, Transport

from . import token_promises
from .applications import Version, body_of
from .loops import EPOCH_OF_RUNS, Machine, World

if TYPE_CHECKING:
    from .tokens import Process, TokenRun

T = TypeVar("T")

_WAY: Final = 0.02
_SLOW_WAY: Final = 20.0


@define
class Trouble:
    """Shares of requests, or of calls of the store, that go wrong while it lasts."""

    lost: float = 0.0
    reply_lost: float = 0.0
    slow: float = 0.0
    failing: float = 0.0
    refused: float = 0.0


@define(eq=False)
class Issued:
    """A token that the endpoint has issued."""

    ends_at: float
    """In the world's time."""
    is_revoked: bool = False


@define(eq=False)
class TokenService:
    """The token endpoint and the API on their own machine."""

    world: World
    lifetime: int
    keeps_newest: bool
    """Whether a new token ends the one before."""
    endpoint: Trouble = field(factory=Trouble)
    api: Trouble = field(factory=Trouble)
    issued: dict[str, Issued] = field(factory=dict)
    answered: int = 0
    """Number of requests that were answered."""

    def revoke_all(self) -> None:
        """End all tokens before their time."""
        for token in self.issued.values():
            token.is_revoked = True

    def answer_token(self, request: Request) -> Response:
        """Issue a token, or refuse to."""
        chance, trouble = self.world.chance, self.endpoint
        self.answered += 1
        if chance.random() < trouble.failing:
            self.world.count("endpoint: failing")
            return _reply(chance.choice((500, 503, 429)), {"retry-after": "3"})
        if chance.random() < trouble.refused:
            self.world.count("endpoint: credentials refused")
            return _reply(chance.choice((400, 401)))
        if self.keeps_newest:
            self.revoke_all()
        token = f"token-{len(self.issued) + 1}"
        self.issued[token] = Issued(self.world.now + self.lifetime)
        self.world.count("endpoint: token issued")
        body = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}
        return _reply(200, body=body)

    def answer_call(self, request: Request, token: str) -> Response:
        """Answer a call of the API, if its token is valid."""
        chance, trouble, issued = self.world.chance, self.api, self.issued[token]
        self.answered += 1
        if chance.random() < trouble.failing:
            self.world.count("API: failing")
            return _reply(chance.choice((500, 503)))
        is_valid = not issued.is_revoked and self.world.now < issued.ends_at
        if not is_valid or chance.random() < trouble.refused:
            self.world.count("API: 401")
            return _reply(401)
        version = Version(request.subject or "", 1, 0.0, EPOCH_OF_RUNS, EPOCH_OF_RUNS, 0.0)
        return _reply(200, body=body_of(version))


def _reply(status: int, headers: Mapping[str, str] | None = None, body: Any = None) -> Response:
    fields = {"content-type": "application/json", **(headers or {})}
    return Response(status=status, headers=fields, body=json.dumps(body).encode())


def ask(
    world: World,
    machine: Machine,
    work: Callable[[], Any],
    trouble: Trouble,
    way: float = _WAY,
) -> Any:
    """Have something done elsewhere, over ways that are slow or lose it while there is trouble."""
    chance = world.chance
    longest = _SLOW_WAY if chance.random() < trouble.slow else way
    return world.ask(
        machine,
        work,
        there=chance.random() * longest,
        back=chance.random() * longest,
        is_lost=chance.random() < trouble.lost,
        is_reply_lost=chance.random() < trouble.reply_lost,
    )


class TokenTransport(Transport):
    """The transport of one process: what it sends and receives is judged."""

    def __init__(self, run: "TokenRun", process: "Process") -> None:
        super().__init__(addresses("https://service.test"))
        self._run, self._process = run, process

    async def send(
        self,
        request: Request,
        headers: Mapping[str, str],
        limits: SocketLimits,
        read: Callable[[Response], T],
    ) -> T:
        """Send a request once, and return what is read from its reply."""
        if request.form is not None:
            return read(await self._request_token(request, limits))
        call = self._process.calls[request.subject or ""]
        token = headers["Authorization"].removeprefix("Bearer ")
        token_promises.judge_sending(self._run, self._process, call, token)
        self._process.last_sent = token
        response = await self._send(
            request,
            limits,
            lambda: self._run.service.answer_call(request, token),
            self._run.service.api,
        )
        if response.status == 401:
            call.refused.append(token)
            self._process.refused.add(token)
        return read(response)

    async def _request_token(self, request: Request, limits: SocketLimits) -> Response:
        process, service = self._process, self._run.service
        token_promises.judge_request(self._run, process)
        sent_at, process.requested_at = process.machine.time(), self._run.world.now
        try:
            response = await self._send(
                request, limits, lambda: service.answer_token(request), service.endpoint
            )
        finally:
            process.requested_at = None
        if response.status == 200:
            process.receive(json.loads(response.body)["access_token"], sent_at)
        elif response.status in {400, 401}:
            process.locked_at = process.machine.time()
        return response

    async def _send(
        self, request: Request, limits: SocketLimits, work: Callable[[], Any], trouble: Trouble
    ) -> Response:
        machine = self._process.machine
        future = ask(self._run.world, machine, work, trouble)
        timer = machine.call_later(limits.read, machine.take, future, None, SILENT.error(request))
        try:
            response: Response = await future
        finally:
            timer.cancel()
        return response


@define(eq=False)
class TokenShelf:
    """The server of a token store."""

    world: World
    delay: float
    """Seconds of one way, at most."""
    trouble: Trouble = field(factory=Trouble)
    token: StoredToken | None = None
    saved_at: float = 0.0
    older: StoredToken | None = None
    """The token before."""
    claimed_by: Machine | None = None
    claimed_until: float = 0.0

    def save(self, token: StoredToken) -> None:
        """Replace the token, and end the claim."""
        self.older, self.token, self.saved_at = self.token, token, self.world.now
        self.claimed_by = None
        self.world.count("store: token saved")

    def claim(self, machine: Machine, seconds: float) -> bool:
        """Note who renews the token, unless another process does."""
        is_free = self.claimed_by is None or self.claimed_until <= self.world.now
        if not is_free:
            self.world.count("store: claimed by another process")
            return self.claimed_by is machine
        self.claimed_by, self.claimed_until = machine, self.world.now + seconds
        return True

    def lose(self) -> None:
        """Lose the token, or the last save of it."""
        self.token = self.older if self.world.chance.random() < 0.5 else None
        self.claimed_by = None


class SharedStore:
    """The token store of a process."""

    def __init__(self, shelf: TokenShelf, machine: Machine) -> None:
        self._shelf, self._machine = shelf, machine
        self.loaded: set[str] = set()
        """Tokens that it has given to the process."""

    async def load(self) -> StoredToken | None:
        """Return the token that was saved last."""
        token: StoredToken | None = await self._call(lambda: self._shelf.token)
        if token is not None:
            self.loaded.add(token.access_token.reveal())
        return token

    async def save(self, token: StoredToken) -> None:
        """Replace the token."""
        await self._call(lambda: self._shelf.save(token))

    async def _call(self, work: Callable[[], Any]) -> Any:
        shelf = self._shelf
        if shelf.world.chance.random() < shelf.trouble.failing:
            shelf.world.count("store: call failed")
            raise OSError("the store is away")
        return await ask(shelf.world, self._machine, work, shelf.trouble, shelf.delay)


class ClaimingStore(SharedStore):
    """The same of a store by which one process renews the token."""

    async def claim(self, seconds: float) -> bool:
        """Return whether this process is to renew the token."""
        is_first: bool = await self._call(lambda: self._shelf.claim(self._machine, seconds))
        return is_first


def wall_time_of(world: World, offset: float) -> datetime:
    """Return what the wall clock of a machine shows."""
    return datetime.fromtimestamp(EPOCH_OF_RUNS + world.now + offset, UTC)


def seconds_left(token: StoredToken, now: datetime) -> float:
    """Return for how long a process may believe that a stored token serves before it is stale."""
    remaining = min((token.expires_at - now) / timedelta(seconds=1), token.lifetime)
    return remaining - min(300.0, token.lifetime / 4)
