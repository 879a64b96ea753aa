"""Programs that use a poller as the guide shows, each in several lives on its machine."""

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from income_client import (
    ApplicationRecord,
    Batch,
    CheckpointConflictError,
    CheckpointError,
    ConfigurationError,
    Poller,
)
from income_client.polling.checkpoint import starting_point
from income_client.polling.reading import PollSource

from . import promises
from .deliveries import read
from .loops import Machine, MachineClock
from .plan import Settings
from .service import session_of
from .stores import Row, StoreClient, client_of
from .streams import run_relay

if TYPE_CHECKING:
    from .cluster import Cluster

_START: Final = "2026-06-30T00:00:00"
_CONCURRENCY: Final = 16
_LONGEST_HOLD: Final = 200.0
"""Seconds for which a consumer holds a batch, at most."""
_MOST_TASKS: Final = 3
_BATCHES_OF_A_LOOP: Final = 3
_WAY: Final = 0.05
"""Seconds of one way to the consumer's database, at most."""


class ConsumerError(Exception):
    """The exception of a consumer's block."""


@define(eq=False)
class Process:
    """One life of a program on a machine."""

    run: "Cluster"
    place: int
    machine: Machine
    settings: Settings
    given: str | None
    """The checkpoint that its own database held when it began."""
    client: StoreClient = field(init=False)
    poller: Poller = field(init=False)
    task: "asyncio.Task[None]" = field(init=False)
    must_exist: bool = field(init=False)
    """Whether it refuses a store without a checkpoint."""
    began_at: float = field(init=False)
    is_stopping: bool = False
    must_hold: bool = False
    """Whether the consumer holds the next batch for long."""
    stands_by_since: float | None = None
    """Since when it is known to stand by without a pause; None if it does not."""

    def __attrs_post_init__(self) -> None:
        self.client = client_of(self.run.store, self.machine)
        self.began_at = self.run.world.now
        has_begun = self.run.books.beginning is not None
        self.must_exist = self.run.plan.must_exist and has_begun and not self.run.begins_anew
        self.task = self.machine.create_task(self._main())

    @property
    def known(self) -> str | None:
        """The last checkpoint of the name that it has seen, or was given; None if none."""
        return self.client.seen or self.given

    @property
    def is_standby(self) -> bool:
        """Whether it waits while another process polls."""
        return hasattr(self, "poller") and self.poller.status.is_standby

    @property
    def is_leader(self) -> bool:
        """Whether it polls, or would if nothing failed."""
        return hasattr(self, "poller") and not self.poller.status.is_standby

    @property
    def is_awake(self) -> bool:
        """Whether its machine runs, and is about to run on."""
        return self.machine.paused_until <= self.run.world.now and self.machine.fuse is None

    @property
    def is_waiting(self) -> bool:
        """Whether it does nothing but wait for its next poll."""
        return self.is_awake and self.poller.status.next_poll_at is not None

    def stop(self) -> None:
        """Stop the poller, as a signal handler does."""
        self.is_stopping = True
        if hasattr(self, "poller"):
            self.machine.call_soon(self.poller.stop)

    async def _main(self) -> None:
        """Poll until stopped."""
        plan, settings, zone = self.run.plan, self.settings, self.run.plan.zone.info
        session = session_of(self.run.service, self.machine)
        source = PollSource(
            session=session,
            zone=zone,
            documents=plan.documents,
            pages=False,
            concurrency=_CONCURRENCY,
            limit=plan.page,
            batch_size=plan.batch,
        )
        starts_now = plan.starts_now and not self.run.begins_anew
        start = self.given or (None if starts_now else _START)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of its store
            self.poller = Poller(
                source,
                self.client,
                name="default",
                start=starting_point(start, zone),
                interval=settings.interval,
                settle=settings.settle,
                lookback=settings.lookback,
                once=plan.once,
                must_exist=self.must_exist,
                standby=plan.standby,
                lease=settings.lease,
            )
        if self.is_stopping:
            self.poller.stop()
        try:
            await _CONSUMERS[plan.consumer](self, self.poller)
        finally:
            self.is_stopping = True
            await self.poller.aclose()
            await session.aclose()

    # What it does with records

    def rows_of(self, batch: Batch) -> list[Row]:
        """Return the rows of a batch."""
        return self._rows(batch.records, batch.sequence)

    def _rows(self, records: Iterable[ApplicationRecord], sequence: int) -> list[Row]:
        return [self.row_of(record, sequence) for record in records]

    def row_of(self, record: ApplicationRecord, sequence: int) -> Row:
        """Return the row of a record, with the latest version that it contains."""
        own = record.application.extra["version"]
        parts = (own, own if record.documents is None else record.documents.extra["version"])
        application = self.run.service.applications[record.application_id]
        version = application.made_of(parts)
        number = application.containing(parts).number if version is None else version.number
        return Row(record.application_id, number, sequence, is_torn=version is None)

    def receive(self, rows: Iterable[Row]) -> None:
        """Note and judge the records that it was given."""
        for row in rows:
            self.run.world.count("consumer: record received")
            if row.is_torn:
                self.run.world.count("consumer: record read amid an update")
            promises.judge_delivery(self.run, self.machine, row)
            self.run.books.delivered(self.machine, row)

    async def write(self, rows: list[Row], checkpoint: str | None = None) -> None:
        """Write rows to a database of its own, with a checkpoint if it keeps one there."""
        await self.hold()
        books, chance = self.run.books, self.run.world.chance

        def commit() -> None:
            books.wrote(rows)
            if checkpoint is not None:
                books.keep_own(self.machine, checkpoint)

        there, back = chance.random() * _WAY, chance.random() * _WAY
        await self.run.world.ask(self.machine, commit, there=there, back=back)

    async def hold(self) -> None:
        """Work for a while; after a fault of this kind for longer than the lease allows."""
        run, seconds = self.run, self.run.plan.holds * self.run.world.chance.random()
        if self.must_hold and not run.is_quiet:
            run.world.count("consumer: holds a batch for long")
            seconds = min(15 * self.settings.lease, _LONGEST_HOLD) * run.world.chance.random()
        self.must_hold = False
        await MachineClock(self.machine).sleep(seconds)

    def fail_sometimes(self, batch: Batch) -> None:
        """Raise an error of the consumer's now and then, and always on a poisonous record."""
        run = self.run
        if any(one.application_id == run.poisonous for one in batch):
            run.world.count("consumer: block failed on a poisonous record")
            raise ConsumerError
        if not run.is_quiet and run.world.chance.random() < run.plan.fails:
            run.world.count("consumer: block failed")
            raise ConsumerError

    def sequence_of_next(self) -> int:
        """Return the sequence that the batch in hand has once it is committed."""
        text = self.run.store.state.stored.checkpoint
        return 0 if text is None else read(text).sequence + 1

    async def in_block(self, batch: Batch, work: Callable[[Batch], Awaitable[None]]) -> None:
        """Work on a batch in its block, and survive what a program survives."""
        try:
            async with batch:
                await work(batch)
        except ConsumerError:
            self.run.books.returned(self.machine, self.rows_of(batch), has_failed=True)
        except CheckpointConflictError:
            if not self.run.plan.standby:
                raise
        except CheckpointError as error:
            # The end of the batch's own transaction is not known.
            self.run.books.returned(self.machine, self.rows_of(batch), has_failed=False)
            if not error.retryable or self.is_stopping:
                raise

    async def work(self, batch: Batch) -> None:
        """Write a batch, and fail now and then before or after that."""
        self.fail_sometimes(batch)
        await self.write(self.rows_of(batch))
        self.fail_sometimes(batch)

    async def work_in_transaction(self, batch: Batch) -> None:
        """Write a batch in the transaction that commits it."""
        rows: list[Row] = []
        try:
            async with batch.transaction(rows):
                self.fail_sometimes(batch)
                await self.hold()
                rows.extend(self.rows_of(batch))
        except ConfigurationError as error:  # a batch before it is not committed
            self.run.world.count("consumer: transaction too early")
            raise ConsumerError from error


async def _take_records(process: Process, poller: Poller) -> None:
    async for record in poller:
        rows = process._rows([record], process.sequence_of_next())
        process.receive(rows)
        await process.write(rows)


async def _take_batches(process: Process, poller: Poller) -> None:
    async for batch in poller.batches():
        process.receive(process.rows_of(batch))
        await process.in_block(batch, process.work)


async def _work_in_tasks(process: Process, poller: Poller) -> None:
    """Work on several batches at a time; each block ends after that of the batch before."""

    async def work(batch: Batch, before: "asyncio.Task[None] | None") -> None:
        async def work_in_order(batch: Batch) -> None:
            await process.work(batch)
            if before is not None:
                await asyncio.wait([before])

        await process.in_block(batch, work_in_order)

    await _start_tasks(process, poller, work)


async def _commit_in_tasks(process: Process, poller: Poller) -> None:
    """Begin the transactions of several batches at a time; one that comes too early fails."""

    async def work(batch: Batch, _before: "asyncio.Task[None] | None") -> None:
        await process.in_block(batch, process.work_in_transaction)

    await _start_tasks(process, poller, work)


async def _start_tasks(
    process: Process,
    poller: Poller,
    work: Callable[[Batch, "asyncio.Task[None] | None"], Coroutine[Any, Any, None]],
) -> None:
    tasks: list[asyncio.Task[None]] = []
    try:
        async for batch in poller.batches():
            process.receive(process.rows_of(batch))
            tasks = [one for one in tasks if not one.done() or one.exception() is not None]
            tasks.append(asyncio.create_task(work(batch, tasks[-1] if tasks else None)))
            await asyncio.sleep(0)  # the block is entered before the next batch is asked for
            if len(tasks) >= _MOST_TASKS:
                await tasks[0]
    finally:
        if asyncio.current_task().cancelling():  # type: ignore[union-attr]
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        task.result()


async def _collect_batches(process: Process, poller: Poller) -> None:
    """Commit one batch for several."""
    async for batch in poller.batches():
        rows = process.rows_of(batch)
        process.receive(rows)
        await process.write(rows)
        if process.run.is_quiet or process.run.world.chance.random() < 0.5:
            try:
                await batch.commit()
            except CheckpointConflictError:
                if not process.run.plan.standby:
                    raise


async def _loop_twice(process: Process, poller: Poller) -> None:
    """Leave the loop after a few batches, with the last one uncommitted, and enter it again."""
    while not process.is_stopping:
        async with aclosing(poller.batches()) as batches:
            count = 0
            async for batch in batches:
                rows = process.rows_of(batch)
                process.receive(rows)
                count += 1
                if count > _BATCHES_OF_A_LOOP and not process.run.is_quiet:
                    process.run.world.count("consumer: loop left with a batch")
                    process.run.books.returned(process.machine, rows, has_failed=True)
                    break
                await process.in_block(batch, process.work)
            else:
                return


async def _commit_in_transaction(process: Process, poller: Poller) -> None:
    async for batch in poller.batches():
        process.receive(process.rows_of(batch))
        await process.in_block(batch, process.work_in_transaction)


async def _keep_checkpoint(process: Process, poller: Poller) -> None:
    """Write the checkpoint in the transaction that writes the rows."""

    async def work(batch: Batch) -> None:
        process.fail_sometimes(batch)
        await process.write(process.rows_of(batch), batch.checkpoint)

    async for batch in poller.batches():
        process.receive(process.rows_of(batch))
        await process.in_block(batch, work)


_CONSUMERS: Final[dict[str, Callable[[Process, Poller], Awaitable[Any]]]] = {
    "relay": run_relay,
    "records": _take_records,
    "batches": _take_batches,
    "tasks": _work_in_tasks,
    "collected": _collect_batches,
    "two loops": _loop_twice,
    "transaction": _commit_in_transaction,
    "transactions in tasks": _commit_in_tasks,
    "own checkpoint": _keep_checkpoint,
}
