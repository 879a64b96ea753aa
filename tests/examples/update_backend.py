# update_backend.py
# pip install fastapi 'faststream[nats]' uvicorn
import os
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from fastapi import FastAPI
from faststream.nats import JStream, NatsBroker

from income_client.engines.relay import UpdateEvent, faststream_publisher

NATS_URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
broker = NatsBroker(NATS_URL, max_reconnect_attempts=-1, ping_interval=10)
stream = JStream("UPDATES", declare=False)  # with the settings that it was made with
publish = faststream_publisher(broker.publisher("income.updates", stream=stream))


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    async with broker:
        await broker.start()
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/applications/{application_id}/refresh", status_code=202)
async def refresh(application_id: str) -> dict[str, str]:
    now = datetime.now(UTC)
    await publish(UpdateEvent(id=uuid.uuid4().hex, application_id=application_id, updated_at=now))
    return {"application_id": application_id, "requested_at": now.isoformat()}
