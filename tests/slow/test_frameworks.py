"""The endpoint for callbacks within applications of three frameworks, on uvicorn servers."""

from typing import Any

import pytest

pytest.importorskip("fastapi", reason="frameworks need the extra 'full'")
pytest.importorskip("litestar", reason="frameworks need the extra 'full'")

from fastapi import FastAPI
from litestar import Litestar, asgi
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.routing import Route

from income_client.receivers.asgi import Receiver
from tests.support.callbacks import Recording, ring, served_by_uvicorn


def fastapi(app: Receiver) -> FastAPI:
    """Return an application with a route that leads to it."""
    return FastAPI(routes=[Route("/callbacks", app)])


def starlette(app: Receiver) -> Starlette:
    """Return one of Starlette's, with a middleware of the kind that wraps both directions."""

    async def passing(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    middleware = Middleware(BaseHTTPMiddleware, dispatch=passing)
    return Starlette(routes=[Route("/callbacks", app)], middleware=[middleware])


def litestar(app: Receiver) -> Litestar:
    """Return one of Litestar's."""
    return Litestar([asgi("/callbacks", copy_scope=True)(app)], logging_config=None)


@pytest.mark.parametrize("http", ["h11", "httptools"])
@pytest.mark.parametrize("framework", [fastapi, starlette, litestar])
async def test_callbacks_reach_it_in_each_framework(framework: Any, http: str) -> None:
    """On the path as it was given, without a redirect, whatever the method."""
    endpoint = Recording()
    async with served_by_uvicorn(framework(Receiver(endpoint)), http=http) as url:
        answer = await ring(url, b'{"a": 1}')
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert answer.body == b'{"method":"POST","peer":"127.0.0.1","bytes":8}'
        assert (await ring(url, method="DELETE")).status == 200
        assert (await ring(url, path="/elsewhere")).status == 404
    assert [head.method for head in endpoint.heads] == ["POST", "DELETE"]
