"""One function per endpoint: arguments in, a `Request` out; sends nothing, reads no reply.

Whatever cannot be meant is refused here, before anything is sent.
"""

import re
from typing import Final
from urllib.parse import quote

from income_client.errors import ConfigurationError

from .messages import Origin, Request

LARGEST_LIMIT: Final = 1000
"""Most rows that one page may hold (contract section 8)."""

_APPLICATIONS: Final = "/v1/income/applications"
_LONGEST_ID: Final = 512
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_~-]{1,512}")
_PLAIN_BUT_COLONS: Final = re.compile(r"[A-Za-z0-9_.~:-]*")
_FIRST_PRINTABLE: Final = 0x20
_C1_CONTROLS: Final = range(0x7F, 0xA0)
_SURROGATES: Final = range(0xD800, 0xE000)


def token_request() -> Request:
    """Ask for an access token with the client's credentials (contract section 5.1)."""
    return Request(
        name="token",
        method="POST",
        path="/token",
        origin=Origin.TOKEN,
        form=b"grant_type=client_credentials",
    )


def list_applications(
    *,
    updated_after: str | None = None,
    updated_before: str | None = None,
    limit: int | None = None,
    application_reference_id: str | None = None,
) -> Request:
    """Ask for one page of applications (contract section 4.1).

    Args:
        updated_after: lower bound as the wire has it; None leaves it to the service.
        updated_before: upper bound, likewise.
        limit: most rows of the page, 1 to 1000; None leaves it to the service.
        application_reference_id: the partner's own reference.

    Raises:
        ConfigurationError: the limit or the reference cannot be meant.
    """
    if application_reference_id is not None:
        _check_id("application_reference_id", application_reference_id)
    if limit is not None:
        check_limit(limit)
    parameters = {
        "updated_after": updated_after,
        "updated_before": updated_before,
        "limit": None if limit is None else str(limit),
        "application_reference_id": application_reference_id,
    }
    query = "&".join(
        [f"{name}={_quoted(value)}" for name, value in parameters.items() if value is not None]
    )
    return Request(name="list_applications", path=_APPLICATIONS, query=query)


def get_application(application_id: str) -> Request:
    """Ask for one application with its income calculations (contract section 4.2).

    Args:
        application_id: as the service gave it when the application was registered.

    Raises:
        ConfigurationError: the id cannot be one.
    """
    return Request(
        name="get_application",
        path=_application_path(application_id),
        subject=application_id,
    )


def get_documents(application_id: str, pages: bool = False) -> Request:
    """Ask for the documents of one application (contract section 4.3).

    Args:
        application_id: as the service gave it when the application was registered.
        pages: whether each document comes with its pages block.

    Raises:
        ConfigurationError: the id cannot be one.
    """
    return Request(
        name="get_documents",
        path=_application_path(application_id) + "/documents",
        query="pages=true" if pages else "",
        subject=application_id,
    )


def _application_path(application_id: str) -> str:
    if _is_plain_id(application_id):
        return f"{_APPLICATIONS}/{application_id}"
    _check_id("application_id", application_id)
    if application_id in {".", ".."}:
        raise ConfigurationError("application_id is a step in a path")
    return f"{_APPLICATIONS}/{_quoted(application_id)}"


def _quoted(text: str) -> str:
    if _PLAIN_BUT_COLONS.fullmatch(text):
        # So it is with times and with most ids, and sooner done than by quote().
        return text.replace(":", "%3A")
    return quote(text, safe="")


def _is_plain_id(text: object) -> bool:
    return isinstance(text, str) and _PLAIN_ID.fullmatch(text) is not None


def _check_id(name: str, text: object) -> None:
    if _is_plain_id(text):
        return
    if not isinstance(text, str) or not text:
        found = "an empty one" if text == "" else type(text).__name__
        raise ConfigurationError(f"{name} must be a non-empty str, found {found}")
    if len(text) > _LONGEST_ID:
        raise ConfigurationError(f"{name} is longer than {_LONGEST_ID} characters")
    if not text.isprintable() and any(_is_unprintable(ord(char)) for char in text):
        raise ConfigurationError(f"{name} holds a control character or half a character")


def _is_unprintable(code: int) -> bool:
    return code < _FIRST_PRINTABLE or code in _C1_CONTROLS or code in _SURROGATES


def check_limit(limit: object) -> None:
    """Refuse a limit that the service would not take (contract section 8)."""
    if type(limit) is not int or not 1 <= limit <= LARGEST_LIMIT:
        raise ConfigurationError(f"limit is a whole number from 1 to {LARGEST_LIMIT}")
