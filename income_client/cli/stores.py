"""Checkpoint stores by their addresses: a file, a database of PostgreSQL, or a bucket of NATS.

An address may hold a password: no message shows more of it than the server and what is there.
"""

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlsplit

from attrs import field, frozen
from cyclopts import Parameter

from income_client import (
    CheckpointError,
    CheckpointStore,
    ConfigurationError,
    IncomeClientError,
    SQLiteCheckpointStore,
    StoredCheckpoint,
)
from income_client.system.disk import is_folder, is_missing
from income_client.system.texts import reason_of

from .output import check_is_no_output

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js.kv import KeyValue

    from income_client.engines.nats_connection import NoConnection

StoreOption = Annotated[str | None, Parameter(metavar="STORE", show_default=False)]
CredsOption = Annotated[Path | None, Parameter(metavar="FILE", show_default=False)]

STORE_VARIABLE: Final = "INCOME_STORE_URL"
"""Variable of the address of a store, which may hold a password."""
_KINDS: Final[dict[str, Literal["nats", "postgres"]]] = {
    "nats": "nats",
    "postgres": "postgres",
    "postgresql": "postgres",
    "tls": "nats",
}
"""Kinds of stores by the scheme of their address; an address without a scheme is a file."""
_BUCKET: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_CONNECT_SECONDS: Final = 5.0


@frozen
class StoreAddress:
    """The address of a store: what ``--store`` or the environment names."""

    kind: Literal["file", "nats", "postgres"]
    text: str = field(repr=False)
    """Path of the file, or URL of the database or of the NATS server."""
    place: str
    """Name of the store in messages, without user name and password."""
    bucket: str = ""
    """Key-value bucket in NATS."""

    @property
    def is_missing(self) -> bool:
        """Whether the address is a file that does not exist."""
        return self.kind == "file" and is_missing(Path(self.text))

    def unknown_error(self, name: str) -> IncomeClientError:
        """Return the error for a name that the store does not have."""
        return IncomeClientError(f"no poller {name!r} in {self.place}")


def read_address(store: str | None) -> StoreAddress:
    """Return the address of ``--store``, or else that of the environment."""
    if store is not None:
        if _has_password(store):
            raise ConfigurationError(
                "--store: every user of this machine can read a command line; set an address with "
                f"a password as {STORE_VARIABLE}"
            )
        return _parse_address(store, "--store")
    if text := os.environ.get(STORE_VARIABLE):
        return _parse_address(text, STORE_VARIABLE)
    raise ConfigurationError(f"one of --store and {STORE_VARIABLE} must be given")


def _has_password(text: str) -> bool:
    scheme, _, rest = text.partition("://")
    kind = _KINDS.get(scheme.lower())
    if kind == "postgres":
        return ":" in rest.rpartition("@")[0] or "password" in rest
    return kind == "nats" and "@" in rest  # a user name alone may be a token


def _parse_address(text: str, option: str) -> StoreAddress:
    scheme, is_url, rest = text.partition("://")
    if not is_url:
        check_is_no_output(Path(text), option)
        return StoreAddress("file", text, text)
    match _KINDS.get(scheme.lower()):
        case "postgres":
            # A password may have a question mark, and an option may be a password.
            shown = "?" if "password" in rest else rest.rpartition("@")[2].partition("?")[0]
            return StoreAddress("postgres", text, f"postgresql://{shown}")
        case "nats":
            servers, _, bucket = text.rpartition("/")
            if servers.endswith(":/") or not _BUCKET.fullmatch(bucket):
                raise ConfigurationError(
                    f"{option}: a bucket must follow the server, as in nats://127.0.0.1/income"
                )
            return StoreAddress("nats", servers, f"bucket {bucket}", bucket)
        case _:
            raise ConfigurationError(
                f"{option}: this must be the path of a file, or begin with postgresql:// or nats://"
            )


@asynccontextmanager
async def open_store(
    address: StoreAddress, creds: Path | None = None, *, must_exist: bool = False
) -> AsyncIterator[CheckpointStore]:
    """Open a store for the block; nothing is written."""
    if creds is not None and address.kind != "nats":
        raise ConfigurationError("--creds is for a store in NATS")
    match address.kind:
        case "postgres":
            from income_client.engines.postgres import PostgresCheckpointStore

            yield PostgresCheckpointStore.from_url(address.text)
        case "nats":
            async with connect_to_nats(address.text, creds) as server:
                yield await open_bucket(server, address.bucket, "--store")
        case _:
            try:
                checkpoints = SQLiteCheckpointStore(address.text)
            except ConfigurationError:
                raise ConfigurationError("--store: this cannot be the path of a file") from None
            if must_exist and address.is_missing:
                raise IncomeClientError(f"there is no store at {address.place}")
            yield checkpoints


async def load_name(
    checkpoints: CheckpointStore, address: StoreAddress, name: str
) -> StoredCheckpoint:
    """Return the stored checkpoint of ``--name``."""
    try:
        return await checkpoints.load(name)
    except CheckpointError as error:
        folder = Path(address.text).parent
        is_lost = address.is_missing and not is_folder(folder)
        reason = f"there is no folder {folder}" if is_lost else error.message
        raise IncomeClientError(f"--store: {reason}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"--name: {error.message}") from None


# NATS


@asynccontextmanager
async def connect_to_nats(url: str, creds: Path | None) -> AsyncIterator["Client"]:
    """Connect to NATS; a lost connection is made again for ever after the first success."""
    try:
        from income_client.engines.nats_connection import NatsConnectionError, close, connect
    except ImportError:
        raise ConfigurationError(
            "NATS needs the extra nats: pip install 'income-client[nats]'"
        ) from None

    if creds is not None:
        _check_file(creds, "--creds")
    try:
        client = await connect(
            url, name="income-client", seconds=_CONNECT_SECONDS, credentials=creds
        )
    except NatsConnectionError as error:
        raise IncomeClientError(_unreachable_text(url, error.reason)) from None
    try:
        yield client
    finally:
        await close(client)


async def open_bucket(server: "Client", bucket: str, option: str) -> CheckpointStore:
    """Return the store in a bucket."""
    from income_client.engines.nats import NatsCheckpointStore

    return NatsCheckpointStore(await _find_bucket(server, bucket, option))


async def _find_bucket(server: "Client", bucket: str, option: str) -> "KeyValue":
    from nats.errors import Error
    from nats.js.errors import BucketNotFoundError, InvalidBucketNameError

    try:
        return await server.jetstream().key_value(bucket)
    except BucketNotFoundError:
        advice = f"nats kv add {bucket}"
        raise IncomeClientError(f"{option}: there is no bucket {bucket}; try {advice}") from None
    except InvalidBucketNameError:
        raise ConfigurationError(f"{option}: this cannot be the name of a bucket") from None
    except Error as error:
        raise IncomeClientError(f"JetStream fails with {type(error).__name__}") from None


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
