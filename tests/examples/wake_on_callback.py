# wake_on_callback.py
import asyncio
import os

from income_client import IncomeClient, SQLiteCheckpointStore
from income_client.receivers import CallbackBasicAuth, CallbackReceiver
from income_client.receivers.aiohttp import routes
from income_client.receivers.aiohttp_server import serving


async def main() -> None:
    auth = CallbackBasicAuth(
        os.environ["INCOME_CALLBACK_USERNAME"], os.environ["INCOME_CALLBACK_PASSWORD"]
    )
    async with IncomeClient.from_env() as client:
        poller = client.poll(SQLiteCheckpointStore("callbacks.db"), interval=60)
        receiver = CallbackReceiver(poller.wake, auth=auth)
        async with serving(routes(receiver, "/callbacks"), host="127.0.0.1", port=9000):
            async for record in poller:
                print(record.application_id, record.last_updated_at, flush=True)


asyncio.run(main())
