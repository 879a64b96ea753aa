"""``income-client guide``: shows the pages of the package's guide."""

import re
import sys
from importlib.resources import files
from typing import Final, Literal, get_args

from .exit_status import ExitStatus
from .output import print_lines, write_text

Page = Literal[
    "reading",
    "polling",
    "callbacks",
    "web",
    "sync",
    "django",
    "files",
    "errors",
    "exports",
    "command-line",
    "testing",
    "emulator",
    "observability",
    "workers",
    "pipelines",
    "scaling",
    "production",
    "runbook",
    "guarantees",
    "contract",
    "extend",
    "internals",
    "contribute",
]
"""Pages in reading order."""
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([a-z-]*)(?:\.md)?(?:#[a-z0-9-]+)?\)")
"""Pattern of a link to another page or to a heading."""


def guide(page: Page | None = None, /) -> int:
    """Show a page of the guide, or list its pages in reading order.

    Pages are drawn on a terminal, and printed as Markdown elsewhere.

    Example: income-client guide polling

    Args:
        page: Name of the page. Default: list the pages.

    Returns:
        The exit status.
    """
    if page is None:
        _list_pages()
    elif sys.stdout.isatty():
        _draw_page(text_of(page))
    else:
        write_text(text_of(page).rstrip())
    return ExitStatus.DONE


def text_of(page: str) -> str:
    """Return a page as Markdown."""
    return files("income_client").joinpath("guide", f"{page}.md").read_text("utf-8")


def first_sentence(text: str) -> str:
    """Return the first sentence below the title of a page."""
    _title, paragraph, *_ = text.split("\n\n")
    words = " ".join(paragraph.replace("`", "").split())
    return re.split(r"(?<=[.:]) ", words)[0].rstrip(":")


def _list_pages() -> None:
    from rich.table import Table

    sentences = {page: first_sentence(text_of(page)) for page in get_args(Page)}
    if not sys.stdout.isatty():
        write_text(*(f"{page}\t{sentence}" for page, sentence in sentences.items()))
        return
    table = Table.grid(padding=(0, 2))
    for page, sentence in sentences.items():
        table.add_row(page, sentence)
    print_lines(table)


def _draw_page(text: str) -> None:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import CodeBlock, Markdown, TableElement
    from rich.syntax import Syntax
    from rich.table import Table

    class WholeLines(CodeBlock):
        """Code blocks that can be copied: rich would indent their lines, and break long ones."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            code = str(self.text).rstrip()
            text = Syntax(code, self.lexer_name, theme=self.theme).highlight(code)
            text.overflow = "ignore"
            text.rstrip()
            yield text

    class FoldedTable(TableElement):
        """A table that breaks long words, which rich would cut off."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for table in super().__rich_console__(console, options):
                if isinstance(table, Table):
                    for column in table.columns:
                        column.overflow = "fold"
                yield table

    class Drawing(Markdown):
        elements = {  # noqa: RUF012 - as in rich
            **Markdown.elements,
            "code_block": WholeLines,
            "fence": WholeLines,
            "table_open": FoldedTable,
        }

    print_lines(Drawing(_LINK.sub(_as_words, text), code_theme="ansi_dark", hyperlinks=False))


def _as_words(link: re.Match[str]) -> str:
    """Replace a link by the name of its page: a terminal cannot follow links."""
    words, page = link.groups()
    return words if page in ("", words) else f"{words} (`{page}`)"
