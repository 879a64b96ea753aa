# wake_on_callback.py
import asyncio
import os

from income_client import CallbackBasicAuth, IncomeClient, SQLiteCheckpointStore
from income_client.receivers import CallbackReceiver
from income_client.receivers.aiohttp import routes
from income_client.receivers.aiohttp_server import serving


async def main() -> None:
    username, password = os.environ["CALLBACK_USERNAME"], os.environ["CALLBACK_PASSWORD"]
    async with IncomeClient.from_env() as client:
        poller = client.poll(SQLiteCheckpointStore("polls.db"), interval=60)
        receiver = CallbackReceiver(poller.wake, auth=CallbackBasicAuth(username, password))
        async with serving(routes(receiver, "/callbacks"), host="127.0.0.1", port=9000):
            async for record in poller:
                print(record.application_id, record.last_updated_at, flush=True)


asyncio.run(main())
