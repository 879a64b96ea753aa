# relay_anywhere.py
# pip install 'faststream[kafka]'
import asyncio

from faststream.kafka import KafkaBroker

from income_client import IncomeClient, SQLiteCheckpointStore
from income_client.engines.relay import faststream_publisher, relay


async def main(broker: KafkaBroker) -> None:
    publish = faststream_publisher(broker.publisher("income.updates"))
    async with broker, IncomeClient.from_env() as client:
        await broker.start()
        poller = client.poll(SQLiteCheckpointStore("relay.db"))
        await relay(poller, publish)


if __name__ == "__main__":
    asyncio.run(main(KafkaBroker("127.0.0.1:9092")))
