"""Replies of an emulated service, read without the client under test."""

import asyncio
import json
from decimal import Decimal
from typing import Any
from urllib.request import Request, urlopen

import aiohttp
import msgspec
from yarl import URL

from income_client.emulator import (
    Emulator,
    HttpReply,
    HttpRequest,
    Service,
    ServiceRules,
    World,
    respond,
)
from income_client.testing import IncomeService

LIST = "/v1/income/applications"
HOST = {"host": "127.0.0.1:8000"}


def a_service(*updates: int, **knobs: Any) -> Service:
    """Return a service whose applications were updated at these seconds."""
    return Service(World(updates, now=1000, rules=ServiceRules(**knobs)))


def ask(service: Service, path: str = LIST, query: str = "", **headers: str) -> HttpReply:
    """Send a GET with good Basic credentials, unless headers say otherwise."""
    good = {**HOST, "authorization": service.basic.authorization().reveal()}
    return respond(
        service, HttpRequest(method="GET", path=path, query=query, headers={**good, **headers})
    )


def ask_json(service: Service, path: str = LIST, query: str = "") -> Any:
    """Return the content of a 200."""
    reply = ask(service, path, query)
    assert reply.status == 200, reply.body
    return msgspec.json.decode(reply.body)


def ask_documents(service: Service, query: str = "") -> list[Any]:
    """Return the documents of the first application."""
    content = ask_json(service, f"{LIST}/{service.world.ids[0]}/documents", query)
    return [document for documents in content["documents"].values() for document in documents]


def request_token(service: Service, **headers: str) -> str:
    """Return an access token."""
    reply = respond(service, token_request(service, **headers))
    assert reply.status == 200, reply.body
    token = msgspec.json.decode(reply.body)["access_token"]
    assert isinstance(token, str)
    return token


def token_request(
    service: Service, body: bytes = b"grant_type=client_credentials", /, **headers: str
) -> HttpRequest:
    """Return a good token request, unless the rest says otherwise."""
    good = {
        **HOST,
        "authorization": service.oauth2.authorization().reveal(),
        "content-type": "application/x-www-form-urlencoded",
    }
    return HttpRequest(method="POST", path="/token", headers={**good, **headers}, body=body)


def basic_header(service: Emulator) -> dict[str, str]:
    """Return the header of good Basic credentials."""
    return {"Authorization": service.basic.authorization().reveal()}


async def get_status(session: aiohttp.ClientSession, service: Emulator, path: str = LIST) -> int:
    """Return the status of a GET."""
    async with session.get(service.url + path, headers=basic_header(service)) as reply:
        await reply.read()
        return reply.status


async def get_json(session: aiohttp.ClientSession, service: Emulator, path: str) -> Any:
    """Return the content of a 200."""
    async with session.get(service.url + path, headers=basic_header(service)) as reply:
        assert reply.status == 200
        return await reply.json()


async def raw_reply(service: Emulator, path: str = LIST) -> bytes:
    """Return every byte that a GET is answered with, until the connection closes."""
    port = URL(service.url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    authorization = service.basic.authorization().reveal()
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Authorization: {authorization}\r\n\r\n".encode()
    )
    try:
        return await reader.read()
    finally:
        writer.close()


def served(service: IncomeService, application_id: str, rest: str = "", query: str = "") -> Any:
    """Return the service's reply about an application, numbers as they are written."""
    address = f"{service.url}/v1/income/applications/{application_id}{rest}"
    authorization = service.basic.authorization().reveal()
    request = Request(
        f"{address}?{query}" if query else address, headers={"Authorization": authorization}
    )
    with urlopen(request) as reply:
        return json.load(reply, parse_float=Decimal)


def documents_of(service: IncomeService, document_type: str | None = None) -> dict[str, str]:
    """Return the ids of documents, each with its application's."""
    return {
        document["document_id"]: application_id
        for application_id in service.ids
        for kind, documents in served(service, application_id, "/documents")["documents"].items()
        for document in documents
        if document_type in (None, kind)
    }


def without_addresses(documents: Any) -> Any:
    """Return documents without the addresses of their files, which change with each reply."""
    for of_one_type in documents["documents"].values():
        for each in of_one_type:
            each["url"] = ""
    return documents


def parsed(lines: str) -> list[Any]:
    """Read lines of JSON, numbers as they are written."""
    return [json.loads(line, parse_float=Decimal) for line in lines.splitlines()]


def ids_in(lines: str) -> list[str]:
    """Return the ids of applications in lines of JSON."""
    return [(line.get("application") or line)["application_id"] for line in parsed(lines)]
