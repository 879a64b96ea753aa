# update_rabbit.py
# pip install income-client 'faststream[rabbit]'
import os

from faststream import AckPolicy, FastStream
from faststream.rabbit import QueueType, RabbitBroker, RabbitQueue

from income_client.engines.relay import UpdateEvent, faststream_decoder

queue = RabbitQueue(
    "income.updates",
    queue_type=QueueType.QUORUM,
    arguments={
        "x-delivery-limit": 8,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "income.dead",  # another queue
    },
)
broker = RabbitBroker(os.environ.get("RABBIT_URL", "amqp://guest:guest@127.0.0.1/"))
app = FastStream(broker)


@broker.subscriber(queue, ack_policy=AckPolicy.NACK_ON_ERROR, decoder=faststream_decoder)
async def handle(event: UpdateEvent) -> None:
    print(event.application_id)
