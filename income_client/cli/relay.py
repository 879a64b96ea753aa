"""``income-client relay``: publishes an event for each update to NATS JetStream."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

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

from .connection import Connection, connect
from .exit_status import ExitStatus
from .options import MaxRate, Seconds, Switch, When
from .output import say
from .poll import (
    Watch,
    belongs_to_log,
    check_name,
    checked_start,
    ending_status,
    start_time,
)
from .progress import StatusLine, filter_log
from .signals import StopSignals
from .stores import (
    STORE_VARIABLE,
    CredsOption,
    StoreAddress,
    StoreOption,
    connect_to_nats,
    load_name,
    open_bucket,
    open_store,
    read_address,
)

if TYPE_CHECKING:
    from nats.aio.client import Client

_VARIABLE: Final = "INCOME_BROKER_URL"
_ATTEMPTS_ONCE: Final = 6
"""Attempts of --once to publish a batch: with their pauses they last half a minute or more."""


async def relay(
    *,
    to: Annotated[str | None, Parameter(name=("--to", "--nats"), metavar="URL")] = None,
    subject: Annotated[str, Parameter(metavar="SUBJECT")] = "income.updates",
    store: StoreOption = None,
    bucket: Annotated[str | None, Parameter(metavar="BUCKET")] = None,
    name: Annotated[str, Parameter(metavar="NAME")] = "relay",
    creds: CredsOption = None,
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
    crash loses nothing. It is kept in --store, as that of poll, or in a key-value
    bucket of the same NATS, which relays on several machines share: start each with
    --standby, and one works while the others wait.

    Exit statuses and messages are those of poll. Needs the extra "nats".

    Example: income-client relay --to nats://127.0.0.1:4222 --bucket income --standby

    Args:
        to: Address of the server, nats://; several are separated by commas. One with a
            user name or a password is read from INCOME_BROKER_URL, and never given here.
        subject: Subject of the events, which a stream must have.
        store: File, or address of PostgreSQL or NATS, that keeps the checkpoint.
        bucket: Key-value bucket of the same NATS that keeps the checkpoint instead.
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
    address = _store_address(store, bucket, url)
    start = checked_start(start, must_exist=must_exist)
    line = StatusLine()
    filter_log(belongs_to_log)
    async with _open_broker(url, subject, address, creds) as (publish, checkpoints):
        is_known = bool((await load_name(checkpoints, address, name)).version)
        check_name(name, address.place, start, is_known=is_known, must_exist=must_exist)
        watch = Watch(address.place, line, is_single=once)
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


def _store_address(store: str | None, bucket: str | None, url: str) -> StoreAddress:
    """Return the address of the checkpoint's store: ``--store``, or ``--bucket`` at the broker."""
    if bucket is None:
        if store is None and not os.environ.get(STORE_VARIABLE):
            raise ConfigurationError("one of --store and --bucket must be given")
        return read_address(store)
    if store is not None:
        raise ConfigurationError("only one of --store and --bucket can be given")
    return StoreAddress("nats", url, f"bucket {bucket}", bucket)


@asynccontextmanager
async def _open_broker(
    url: str, subject: str, address: StoreAddress, creds: Path | None
) -> AsyncIterator[tuple[engine_relay.Publish, CheckpointStore]]:
    """Open the publisher and the store."""
    async with connect_to_nats(url, creds) as server:
        from income_client.engines.nats import nats_publisher

        await _check_subject(server, subject)
        publish = nats_publisher(server.jetstream(), subject)
        if (address.kind, address.text) == ("nats", url):
            yield publish, await open_bucket(server, address.bucket, "--bucket")
        else:
            of_store = creds if address.kind == "nats" else None
            async with open_store(address, of_store) as checkpoints:
                yield publish, checkpoints


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
