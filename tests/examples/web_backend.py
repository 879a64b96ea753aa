# web_backend.py
# pip install fastapi uvicorn
import asyncio
import logging
import math
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from starlette.routing import Route

from income_client import (
    IncomeClient,
    IncomeClientError,
    InvalidArgumentError,
    NotFoundError,
    Poller,
    SQLiteCheckpointStore,
    to_json,
)
from income_client.receivers import CallbackBasicAuth, CallbackReceiver
from income_client.receivers.asgi import Receiver

logger = logging.getLogger(__name__)


async def follow(poller: Poller) -> None:
    try:
        async for record in poller:
            logger.info("%s was updated", record.application_id)  # your own work
    except Exception:
        logger.exception("polling has ended")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    async with IncomeClient.from_env() as client:
        poller = client.poll(SQLiteCheckpointStore("backend.db"), standby=True)
        app.state.client, app.state.poller = client, poller
        app.state.polling = asyncio.create_task(follow(poller))
        try:
            yield
        finally:
            poller.stop()
            await app.state.polling


auth = CallbackBasicAuth("service", os.environ["INCOME_CALLBACK_PASSWORD"])
receiver = CallbackReceiver(lambda _: app.state.poller.wake(), auth=auth)
app: FastAPI = FastAPI(lifespan=lifespan, routes=[Route("/callbacks", Receiver(receiver))])


@app.exception_handler(IncomeClientError)
async def refuse(request: Request, error: IncomeClientError) -> Response:
    if error.retryable:
        pause = math.ceil(error.retry_after or 1)
        return Response(status_code=503, headers={"Retry-After": str(pause)})
    if isinstance(error, NotFoundError | InvalidArgumentError):  # no such id, or an invalid one
        return Response(status_code=404)
    logger.error("%s: %s", type(error).__name__, error)
    return Response(status_code=502)


@app.get("/applications/{application_id}")
async def application(application_id: str) -> Response:
    found = await app.state.client.get_record(application_id)
    return Response(to_json(found), media_type="application/json")


@app.get("/health")
async def health(response: Response) -> dict[str, object]:
    if app.state.polling.done():
        response.status_code = 503
    status = app.state.poller.status
    return {"lag": status.lag, "failures": status.failures}
