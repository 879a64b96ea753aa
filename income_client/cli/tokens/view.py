"""What is told of an access token on standard output; never sees the token itself."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, Literal

from attrs import frozen
from rich.console import Group
from rich.table import Table
from rich.text import Text

from income_client.cli.output import counted_down, print_lines, printable, write_text

from .claims import TokenContent, utc_text

_CLOSE_SECONDS: Final = 60.0
_UNVERIFIED: Final = "read from the token; its signature is for the service to verify"


@frozen(kw_only=True)
class TokenReport:
    """What is known of a token."""

    expires_at: datetime
    """When it ends, by the reply that brought it."""
    seconds_left: float
    """Until then."""
    lifetime: float
    """Seconds that it was given for."""
    characters: int
    """How long it is."""
    content: TokenContent | None
    """What it says, None where that cannot be read."""

    @property
    def form(self) -> str:
        """What kind of token it is."""
        if self.content is None:
            return "opaque"
        return "encrypted JWT" if self.content.is_encrypted else "JWT"

    @property
    def disagrees(self) -> bool:
        """Whether it and the reply that brought it tell different ends."""
        end = None if self.content is None else self.content.expires_at
        return end is not None and abs((end - self.expires_at).total_seconds()) > _CLOSE_SECONDS


def show_token(report: TokenReport, output: Literal["table", "json"]) -> None:
    """Print it.

    Args:
        report: what is known of the token.
        output: how.
    """
    if output == "json":
        write_text(json.dumps(_as_json(report), indent=2))
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for name, words in _rows(report):
        table.add_row(printable(name), Text(printable(words)))
    source = Text(f"Header and claims were {_UNVERIFIED}.", "dim")
    print_lines(table if report.content is None else Group(table, "", source))


def _rows(report: TokenReport) -> Iterator[tuple[str, str]]:
    yield "type", f"Bearer, {report.form}, {report.characters:,} characters"
    left = counted_down(report.seconds_left)
    yield "expires", f"{utc_text(report.expires_at)}, in {left}"
    yield "lifetime", f"{report.lifetime:g} s"
    content = report.content
    yield "scope", "not told" if content is None or content.scope is None else content.scope
    if content is None:
        return
    if report.disagrees:
        yield "note", "the token's own exp is more than a minute from that; the clocks may differ"
    for name, words in content.header.items():
        yield f"header {name}", words
    for name, words in content.claims.items():
        yield f"claim {name}", words
    if content.hidden:
        yield "not shown", ", ".join(content.hidden)


def _as_json(report: TokenReport) -> dict[str, Any]:
    content = report.content
    return {
        "type": "Bearer",
        "form": report.form,
        "expires_at": utc_text(report.expires_at),
        "seconds_left": int(report.seconds_left),
        "lifetime": report.lifetime,
        "scope": None if content is None else content.scope,
        "header": {} if content is None else _clean(content.header),
        "claims": {} if content is None else _clean(content.claims),
        "not_shown": [] if content is None else [printable(name) for name in content.hidden],
        "verified": False,
    }


def _clean(words: Any) -> dict[str, str]:
    return {printable(name): printable(text) for name, text in words.items()}
