"""``income-client token``: requests an access token and describes it.

A token is read without its signature, and only what speaks of the token, the service
and the client is shown; any other claim may be about a person.
"""

import json
import sys
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from income_client import IncomeClientError, StoredToken
from income_client.texts import printable

from .connection import Connection, is_refusal, made_ready
from .exit_status import ExitStatus
from .options import Switch, TableOrJson
from .output import duration, print_lines, say, write_text

_HIDDEN: Final = "(not shown)"
_SIGNED_PARTS: Final = 2
"""After the header; an encrypted token has more."""
_ENCRYPTED_PARTS: Final = 4
_LONGEST: Final = 200
_CLOSE: Final = timedelta(minutes=1)
_HEADER: Final = frozenset({"alg", "cty", "enc", "kid", "typ"})
_TIMES: Final = frozenset({"auth_time", "exp", "iat", "nbf"})
_CLAIMS: Final = _TIMES | {
    "aud", "azp", "client_id", "cid", "gty", "iss", "roles", "scope", "scp", "sub", "tid",
    "token_use", "ver",
}  # fmt: skip


async def token(
    *,
    connection: Connection | None = None,
    output: TableOrJson = "table",
    reveal: Switch = False,
) -> int:
    """Request an access token and describe it.

    The claims of a JWT are shown without verifying its signature, except those that
    may be about a person. The token itself is shown by --reveal only, which prints
    nothing else. The exit status is 1 if the credentials need no token, and 4 if
    they, or the token, were refused.

    Example: income-client token

    Args:
        connection: The service.
        output: Format of the output.
        reveal: Print the token itself, and nothing else.
    """
    ready = made_ready(connection)
    if ready.configuration.account.username is not None:
        say("there is no token: user name and password are sent with every request")
        return ExitStatus.FAILED
    store = _NewToken()
    status = ExitStatus.DONE
    try:
        async with ready.client(token_store=store) as client:
            await client.check()
    except IncomeClientError as error:
        if store.token is None:
            raise
        if is_refusal(error):
            status = ExitStatus.REFUSED
        say(f"a token was issued, and the service did not accept it: {error}")
    if store.token is None:
        say("no token was issued")
        return ExitStatus.FAILED
    if reveal:
        if sys.stdout.isatty():
            say("who has this token can read what you can read; clear it from this terminal")
        write_text(store.token.access_token.reveal())
    elif output == "json":
        write_text(json.dumps(_describe_token(store.token), indent=2))
    else:
        _print_table(_describe_token(store.token))
    return status


class _NewToken:
    """A token store that begins empty, so that a token is requested, and keeps it in memory."""

    def __init__(self) -> None:
        self.token: StoredToken | None = None

    async def load(self) -> StoredToken | None:
        return None

    async def save(self, token: StoredToken) -> None:
        self.token = token


def _describe_token(issued: StoredToken) -> dict[str, Any]:
    """Return what may be shown of a token, as the JSON output has it."""
    text = issued.access_token.reveal()
    form, header, claims = _read_content(text)
    scope = claims.get("scope", claims.get("scp"))
    end = _read_moment(claims.get("exp"))
    unknown = [*(header.keys() - _HEADER), *(claims.keys() - _CLAIMS)]
    return {
        "type": "Bearer",
        "form": form,
        "characters": len(text),
        "expires_at": _utc_text(issued.expires_at.astimezone(UTC)),
        "seconds_left": int((issued.expires_at - datetime.now(UTC)).total_seconds()),
        "lifetime": issued.lifetime,
        "exp_agrees": end is None or abs(end - issued.expires_at) <= _CLOSE,
        "scope": None if scope is None else _value_words(scope) or None,
        "header": {name: _value_words(value) for name, value in header.items() if name in _HEADER},
        "claims": {
            name: _claim_text(name, value) for name, value in claims.items() if name in _CLAIMS
        },
        "not_shown": sorted(printable(name[:_LONGEST]) for name in unknown),
        "verified": False,
    }


def _read_content(text: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the form of a token, and header and claims as far as they can be read."""
    head, *parts = text.split(".")
    header = _read_object(head)
    if header is not None and "alg" in header:
        if len(parts) == _ENCRYPTED_PARTS:
            return "encrypted JWT", header, {}
        claims = _read_object(parts[0]) if len(parts) == _SIGNED_PARTS else None
        if claims is not None:
            return "JWT", header, claims
    return "opaque", {}, {}


def _read_object(part: str) -> dict[str, Any] | None:
    try:
        value = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _claim_text(name: str, value: object) -> str:
    moment = _read_moment(value) if name in _TIMES else None
    if moment is not None:
        return _utc_text(moment)
    # If the client is a person, its name may be that of the person.
    is_name = name == "sub" and isinstance(value, str) and any(map(str.isspace, value))
    return _HIDDEN if is_name else _value_words(value)


def _value_words(value: object) -> str:
    text = " ".join(map(_value_word, value)) if isinstance(value, list) else _value_word(value)
    return printable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _value_word(value: object) -> str:
    match value:
        case str() if "@" not in value:  # an address may be that of a person
            return value
        case bool() | int() | float() | None:
            return json.dumps(value)
        case _:
            return _HIDDEN


def _read_moment(value: object) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _utc_text(moment: datetime) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def _print_table(found: dict[str, Any]) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for name, words in _table_rows(found):
        table.add_row(name, Text(words))
    print_lines(table)


def _table_rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "type", f"{found['type']}, {found['form']}, {found['characters']:,} characters"
    yield "expires", f"{found['expires_at']}, in {duration(found['seconds_left'])}"
    yield "lifetime", f"{found['lifetime']:g} s"
    yield "scope", found["scope"] or "not stated"
    if not found["exp_agrees"]:
        yield "note", "the token's own exp claim is more than a minute off; a clock may be wrong"
    for kind in ("header", "claims"):
        for name, words in found[kind].items():
            yield f"{kind.removesuffix('s')} {name}", words
    if found["not_shown"]:
        yield "not shown", ", ".join(found["not_shown"])
    if found["header"]:
        yield "signature", "not verified"
