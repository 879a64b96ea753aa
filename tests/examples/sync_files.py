# sync_files.py
import asyncio
import signal

from income_client import (
    Batch,
    DownloadError,
    DownloadFailure,
    IncomeClient,
    IncomeClientError,
    NotFoundError,
    Poller,
    SQLiteCheckpointStore,
)


def is_final(error: IncomeClientError) -> bool:
    if isinstance(error, DownloadError):
        return not error.retryable and not error.disk_failed
    return isinstance(error, NotFoundError)  # the application is gone, and its documents


async def save(client: IncomeClient, batch: Batch) -> None:
    files = client.download_all(batch, "files", overwrite=True, on_error="yield")
    async for file in files:
        if not isinstance(file, DownloadFailure):
            print(file.path, flush=True)
        elif is_final(file.error):  # note it in a table of yours
            print("not saved:", file.application_id, file.error, flush=True)
        else:
            raise file.error


async def follow(client: IncomeClient, poller: Poller) -> None:
    async for batch in poller.batches():
        try:
            async with batch:
                await save(client, batch)
        except IncomeClientError as error:
            if not error.retryable and not isinstance(error, DownloadError):
                raise
            print("the batch comes again:", error, flush=True)


async def main() -> None:
    async with IncomeClient.from_env() as client:
        poller = client.poll(SQLiteCheckpointStore("files.db"), start="2026-01-01")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, poller.stop)
        await follow(client, poller)


if __name__ == "__main__":
    asyncio.run(main())
