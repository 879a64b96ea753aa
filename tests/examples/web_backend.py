# web_backend.py
# pip install fastapi uvicorn
import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response

from income_client import (
    ConfigurationError,
    IncomeClient,
    IncomeClientError,
    NotFoundError,
    Poller,
    SQLiteCheckpointStore,
    to_json,
)

logger = logging.getLogger(__name__)


async def follow(poller: Poller) -> None:
    try:
        async for record in poller:
            logger.info("%s was updated", record.application_id)  # your own work
    except Exception:
        logger.exception("polling has ended")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    async with IncomeClient.from_env() as client:
        poller = client.poll(SQLiteCheckpointStore("backend.db"), standby=True)
        polling = asyncio.create_task(follow(poller))
        try:
            yield {"client": client, "poller": poller, "polling": polling}
        finally:
            poller.stop()
            await polling


app = FastAPI(lifespan=lifespan)


@app.exception_handler(IncomeClientError)
async def refuse(request: Request, error: IncomeClientError) -> Response:
    if error.retryable:
        pause = math.ceil(error.retry_after or 1)
        return Response(status_code=503, headers={"Retry-After": str(pause)})
    if isinstance(error, NotFoundError | ConfigurationError):  # no such id, or an invalid one
        return Response(status_code=404)
    logger.error("%s: %s", type(error).__name__, error)
    return Response(status_code=502)


@app.get("/applications/{application_id}")
async def application(application_id: str, request: Request) -> Response:
    found = await request.state.client.get_application(application_id)
    return Response(to_json(found), media_type="application/json")


@app.get("/health")
async def health(request: Request, response: Response) -> dict[str, object]:
    if request.state.polling.done():
        response.status_code = 503
    status = request.state.poller.status
    return {"lag": status.lag, "failures": status.failures}
