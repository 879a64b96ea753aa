"""An endpoint as routes of an aiohttp application.

The peer is the other end of the connection, whatever middlewares have rewritten.
"""

from collections.abc import AsyncIterator

from aiohttp import web

from .adapters import Body, BodyCutError, Endpoint, certificate_of, endpoint_of, peer_of
from .exchange import Answer, RequestHead
from .issuer import CallbackTokenIssuer


def routes(receiver: Endpoint | CallbackTokenIssuer, path: str) -> list[web.AbstractRouteDef]:
    """Return routes for ``app.add_routes``, by which an endpoint answers requests to a path.

    All methods lead there, since the endpoint itself refuses all but POST. The size
    of a body is limited by the endpoint, whatever ``client_max_size`` says.

    aiohttp logs a request that it cannot read with the line at fault, which may be that of the
    credentials: ``logger=`` of `aiohttp.web.AppRunner` decides where that goes.

    Args:
        receiver: a `CallbackReceiver`, or a `CallbackTokenIssuer` for its token address.
        path: as aiohttp's routes have it, such as ``/callbacks``.

    Raises:
        ConfigurationError: the receiver is neither.
    """
    endpoint = endpoint_of(receiver)

    async def handle(request: web.Request) -> web.Response:
        transport = request.transport
        head = RequestHead(
            method=request.method,
            headers=tuple(request.raw_headers),
            peer=peer_of(transport),
            certificate=certificate_of(transport),
        )
        response = _make_response(await endpoint.answer(head, _body_of(request)))
        end_after_chunks(request, response)
        if not response.keep_alive and "Content-Encoding" in request.headers:
            # aiohttp would keep inflating a body that is not read.
            await response.prepare(request)
            await response.write_eof()
            request.protocol.force_close()
        return response

    return [web.route("*", path, handle)]


def end_after_chunks(request: web.Request, response: web.StreamResponse) -> None:
    """Close the connection after the response if the request's body was chunked.

    Such a body may have trailers. aiohttp takes the last one for a header of the next request,
    which a proxy may send for somebody else.
    """
    if "Transfer-Encoding" in request.headers:
        response.force_close()


def _body_of(request: web.Request) -> Body:
    """Return the whole body if it arrived together with its head, as short bodies do."""
    content = request.content
    if content.is_eof() and content.exception() is None:
        return content.read_nowait()
    return _read_chunks(request)


async def _read_chunks(request: web.Request) -> AsyncIterator[bytes]:
    while True:
        try:
            chunk = await request.content.readany()
        except Exception:  # noqa: BLE001 - aiohttp's errors of many kinds mean the same here
            raise BodyCutError from None
        if not chunk:
            return
        yield chunk


def _make_response(answer: Answer) -> web.Response:
    response = web.Response(status=answer.status, headers=answer.headers, body=answer.body)
    if response.headers.get("Connection") == "close":
        # The header informs the client; this call informs aiohttp.
        response.force_close()
    return response
