"""A page of the list of which some rows are not what the contract says; shows no value.

A poller needs no more of a row than its id, and the applications of the other
rows must not wait for the service to mend one. A page whose bounds cannot be
read, or of which a row has no id, settles nothing.
"""

import json
from http import HTTPStatus
from typing import Any, TypeVar

from income_client.errors import DecodeError, IncomeClientError
from income_client.http.endpoints import Request, Response
from income_client.http.replies import read_reply
from income_client.records.applications import ApplicationPage, ApplicationSummary
from income_client.records.window import EPOCH
from income_client.wire.codec import decode
from income_client.wire.strict_json import parse_exactly, render

T = TypeVar("T")


def read_page(request: Request, response: Response) -> ApplicationPage | IncomeClientError:
    """Read a page of the list for its ids (contract section 2.1).

    Args:
        request: what was asked.
        response: what came back.

    Returns:
        The page, or the error that stands for it. A row of which only the id can be
        read has no reference, and an application date of 1970.
    """
    page = read_reply(ApplicationPage, request, response)
    if response.status != HTTPStatus.OK or not isinstance(page, IncomeClientError):
        return page
    tree = parse_exactly(response.body)
    if isinstance(tree, DecodeError):
        # Half a character in one row makes the whole no JSON for the strict reader.
        try:
            tree = json.loads(response.body)
        except (ValueError, RecursionError):
            return page
    return _salvaged(tree) or page


def _salvaged(tree: Any) -> ApplicationPage | None:
    match tree:
        case {"applications": [*rows]}:
            bounds = {name: tree.get(name) for name in ("updated_after", "updated_before")}
        case _:
            return None
    page = _decoded(ApplicationPage, {**bounds, "applications": []})
    summaries = [_row(row) for row in rows]
    if page is None or None in summaries:
        return None
    return ApplicationPage(
        updated_after=page.updated_after,
        updated_before=page.updated_before,
        applications=tuple(row for row in summaries if row is not None),
    )


def _row(row: Any) -> ApplicationSummary | None:
    application_id = row.get("application_id") if isinstance(row, dict) else None
    if not isinstance(application_id, str):
        return None
    return _decoded(ApplicationSummary, row) or ApplicationSummary(
        application_id=application_id,
        application_reference_id="",
        application_date=EPOCH,
    )


def _decoded(cls: type[T], tree: Any) -> T | None:
    try:
        record = decode(cls, render(tree))
    except (TypeError, ValueError):  # half a character, or a number that no text can hold
        return None
    return None if isinstance(record, DecodeError) else record
