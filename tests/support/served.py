"""What a service itself says, read past the client under test."""

import json
from decimal import Decimal
from typing import Any
from urllib.request import Request, urlopen

from income_client.testing import IncomeService


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
