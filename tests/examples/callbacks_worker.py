# callbacks_worker.py
# pip install 'income-client[callbacks]'
import asyncio
import os
import signal

from income_client import CallbackTokenIssuer, IncomeClient, SQLiteCheckpointStore
from income_client.receivers import CallbackReceiver
from income_client.receivers.aiohttp import routes
from income_client.receivers.aiohttp_server import serving


async def main() -> None:
    issuer = CallbackTokenIssuer(
        os.environ["INCOME_CALLBACK_CLIENT_ID"], os.environ["INCOME_CALLBACK_CLIENT_SECRET"]
    )
    async with IncomeClient.from_env() as client:
        poller = client.poll(SQLiteCheckpointStore("polls.db"), interval=60)
        receiver = CallbackReceiver(poller.wake, auth=issuer.auth)
        served = [*routes(receiver, "/callbacks"), *routes(issuer, "/token")]
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, poller.stop)
        async with serving(served, host="127.0.0.1", port=int(os.environ["PORT"])):
            async for record in poller:
                print(record.application_id, record.last_updated_at, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
