"""``income-client relay``: publishes an event for each update to NATS JetStream."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from cyclopts import Parameter
from cyclopts.validators import Number

from income_client import (
    CheckpointConflictError,
    CheckpointStore,
    ConfigurationError,
    IncomeClientError,
)
from income_client.engines import relay as engine_relay
from income_client.engines.relay import Payload
from income_client.system.texts import reason_of

from .connection import Connection, connect
from .exit_status import ExitStatus
from .options import MaxRate, Seconds, Switch, When
from .output import check_is_no_output, say
from .poll import (
    Watch,
    belongs_to_log,
    check_name,
    checked_start,
    ending_status,
    opened_store,
    start_time,
)
from .progress import StatusLine, filter_log
from .signals import StopSignals

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js.kv import KeyValue

    from income_client.engines.nats_connection import NoConnection

_VARIABLE: Final = "INCOME_BROKER_URL"
_CONNECT_SECONDS: Final = 5.0
_ATTEMPTS_ONCE: Final = 6
"""Attempts of --once to publish a batch: with their pauses they last half a minute or more."""


async def relay(
    *,
    to: Annotated[str | None, Parameter(name=("--to", "--nats"), metavar="URL")] = None,
    subject: Annotated[str, Parameter(metavar="SUBJECT")] = "income.updates",
    store: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    bucket: Annotated[str | None, Parameter(metavar="BUCKET")] = None,
    name: Annotated[str, Parameter(metavar="NAME")] = "relay",
    creds: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    payload: Payload = "reference",
    start: When | None = None,
    interval: Annotated[float, Parameter(metavar="SECONDS", validator=Number(gt=0))] = 30.0,
    settle: Annotated[Seconds, Parameter(metavar="SECONDS")] = 60.0,
    lookback: Annotated[Seconds, Parameter(metavar="SECONDS")] = 0.0,
    max_rate: MaxRate = None,
    once: Switch = False,
    standby: Switch = False,
    lease: Annotated[float, Parameter(metavar="SECONDS", validator=Number(gt=0))] = 15.0,
    must_exist: Switch = False,
    documents: Annotated[bool, Parameter(show_default=False)] = True,
    connection: Connection | None = None,
) -> int:
    """Publish an event for each update to NATS JetStream.

    An event is JSON with the id of the application, the time of its update and an
    id of its own, by which a stream of NATS drops what comes twice. Workers read the
    record from the service. With --payload record, the event holds it, with
    personal data.

    The checkpoint moves once the stream has acknowledged all events before it: a
    crash loses nothing. It is kept in a file, or in a key-value bucket of the same
    NATS, which relays on several machines share: start each with --standby, and one
    works while the others wait.

    Exit statuses and messages are those of poll. Needs the extra "nats".

    Example: income-client relay --to nats://127.0.0.1:4222 --bucket income --standby

    Args:
        to: Address of the server, nats://; several are separated by commas. One with a
            user name or a password is read from INCOME_BROKER_URL, and never given here.
        subject: Subject of the events, which a stream must have.
        store: File that keeps the checkpoint; created if it does not exist.
        bucket: Key-value bucket that keeps the checkpoint instead.
        name: Name of the checkpoint there.
        creds: File of credentials for NATS.
        payload: What an event holds.
        start: Where a new name begins: a time, 7d or 12h back, now or beginning. Default: now.
        interval: Seconds from one poll to the next.
        settle: Seconds that the service may take to list an update.
        lookback: Further seconds that each poll reads again.
        max_rate: Most requests a second, retries included. Default: no limit.
        once: Poll once, up to the present, and exit.
        standby: Wait while another process relays by this name, and take over when it ends.
        lease: Seconds after which a standby takes over from a process that has died.
        must_exist: Fail if the checkpoint does not exist yet. Not together with --start.
        documents: Count updates of documents too, which are read for it. Default: --documents.
        connection: The service.
    """
    url = _broker_url(to)
    if creds is not None:
        _check_file(creds, "--creds")
    if store is None and bucket is None:
        raise ConfigurationError("one of --store and --bucket must be given")
    if store is not None and bucket is not None:
        raise ConfigurationError("only one of --store and --bucket can be given")
    if store is not None:
        check_is_no_output(store, "--store")
    start = checked_start(start, must_exist=must_exist)
    line = StatusLine()
    filter_log(belongs_to_log)
    opened = _opened(url, subject, store, bucket, creds, name)
    async with opened as (publish, checkpoints, is_known):
        place = str(store) if bucket is None else f"bucket {bucket}"
        check_name(name, place, start, is_known=is_known, must_exist=must_exist)
        watch = Watch(place, line, is_single=once)
        async with connect(connection, on_event=watch.take_event, max_rate=max_rate) as client:
            poller = client.poll(
                checkpoints,
                name=name,
                start=None if is_known else await start_time(start, client),
                interval=interval,
                settle=settle,
                lookback=lookback,
                standby=lease if standby else False,
                must_exist=must_exist,
                documents=documents,
            )
            if once:
                poller.stop(after_poll=True)
            signals = StopSignals(poller.stop)
            try:
                async with watch.following(poller):
                    attempts = _ATTEMPTS_ONCE if once else None
                    await engine_relay.relay(poller, publish, payload=payload, attempts=attempts)
            except CheckpointConflictError as error:
                say(f"{error.message}; this one ends")
                return ExitStatus.REPLACED
    return ending_status(poller, signals.received, watch, once=once)


def _broker_url(to: str | None) -> str:
    """Return the server's address: that of --to, or else of the environment."""
    if to is None:
        url = os.environ.get(_VARIABLE)
        if not url:
            raise ConfigurationError(f"one of --to and {_VARIABLE} must be given")
        return url
    if "@" in to:
        raise ConfigurationError(
            "--to: every user of this machine can read a command line; set an address with a "
            f"user name or a password as {_VARIABLE}"
        )
    return to


@asynccontextmanager
async def _opened(
    url: str, subject: str, store: Path | None, bucket: str | None, creds: Path | None, name: str
) -> AsyncIterator[tuple[engine_relay.Publish, CheckpointStore, bool]]:
    """Open the publisher and the store; return whether the store has the name, too."""
    try:
        from income_client.engines import nats as engine
    except ImportError:
        raise ConfigurationError(
            "relay needs the extra nats: pip install 'income-client[nats]'"
        ) from None

    async with _connect_to_nats(url, creds) as server:
        await _check_subject(server, subject)
        publish = engine.nats_publisher(server.jetstream(), subject)
        if bucket is None:
            yield publish, *await opened_store(store or Path(), name)
        else:
            checkpoints = engine.NatsCheckpointStore(await _open_bucket(server, bucket))
            yield publish, checkpoints, bool((await checkpoints.load(name)).version)


@asynccontextmanager
async def _connect_to_nats(url: str, creds: Path | None) -> AsyncIterator["Client"]:
    """Connect to NATS; a lost connection is made again for ever after the first success."""
    from income_client.engines.nats_connection import NatsConnectionError, close, connect

    try:
        client = await connect(
            url, name="income-client relay", seconds=_CONNECT_SECONDS, credentials=creds
        )
    except NatsConnectionError as error:
        raise IncomeClientError(_unreachable_text(url, error.reason)) from None
    try:
        yield client
    finally:
        await close(client)


def _unreachable_text(url: str, reason: "NoConnection") -> str:
    from income_client.engines.nats_connection import NoConnection

    # A part without a user name may be half of a password that has a comma.
    parts = [part if "@" in part or "@" not in url else "" for part in url.split(",")]
    places = ", ".join(map(_place_of, parts))
    if reason is NoConnection.CREDENTIALS:
        return f"the server at {places} refused the credentials"
    is_known = reason not in {NoConnection.SILENCE, NoConnection.ADDRESS}
    return f"no NATS server answers at {places}" + (f": {reason.value}" if is_known else "")


def _place_of(url: str) -> str:
    """Return the host and port of a URL, which may contain a password."""
    try:
        parts = urlsplit(url)
        # The text before another host may be part of a password.
        place = f"{parts.hostname}:{parts.port}" if parts.hostname and parts.port else "?"
    except ValueError:
        return "?"
    return place if parts.username or "@" not in url else "?"


def _check_file(path: Path, option: str) -> None:
    try:
        is_file = path.is_file()
    except OSError as error:
        raise IncomeClientError(f"{option}: cannot read {path}: {reason_of(error)}") from None
    if not is_file:
        raise IncomeClientError(f"{option}: there is no file {path}")


async def _check_subject(server: "Client", subject: str) -> None:
    from nats.errors import Error
    from nats.js.errors import NotFoundError

    from income_client.engines.nats_streams import refuse_loss

    streams = server.jetstream()
    try:
        name = await streams.find_stream_name_by_subject(subject)
        # A user without the right to read the settings gets no answer; the publisher warns of it.
        with suppress(TimeoutError):
            await refuse_loss(streams, await streams.stream_info(name), subject)
    except ConfigurationError as error:
        raise IncomeClientError(f"--subject: {error.message}") from None
    except NotFoundError:
        advice = f"nats stream add UPDATES --subjects '{subject}'"
        raise IncomeClientError(f"--subject: no stream has {subject}; try {advice}") from None
    except Error as error:
        raise IncomeClientError(f"JetStream fails with {type(error).__name__}") from None


async def _open_bucket(server: "Client", bucket: str) -> "KeyValue":
    from nats.errors import Error
    from nats.js.errors import BucketNotFoundError, InvalidBucketNameError

    try:
        return await server.jetstream().key_value(bucket)
    except BucketNotFoundError:
        advice = f"nats kv add {bucket}"
        raise IncomeClientError(f"--bucket: there is no bucket {bucket}; try {advice}") from None
    except InvalidBucketNameError:
        raise ConfigurationError("--bucket: this cannot be the name of a bucket") from None
    except Error as error:
        raise IncomeClientError(f"JetStream fails with {type(error).__name__}") from None
