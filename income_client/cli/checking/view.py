"""The findings of a check-up on standard output: a table to read, or JSON; judges nothing."""

import json
from collections.abc import Sequence
from typing import Any, Final, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from income_client.cli.output import counted, print_lines, printable, write_text

from .facts import Finding, Verdict

_STYLES: Final = {
    Verdict.OK: "green",
    Verdict.NOTE: "cyan",
    Verdict.WARNING: "yellow",
    Verdict.FAILED: "bold red",
    Verdict.SKIPPED: "dim",
}


def show_findings(findings: Sequence[Finding], output: Literal["table", "json"]) -> None:
    """Print the findings.

    Args:
        findings: line by line.
        output: how.
    """
    if output == "json":
        write_text(json.dumps({"findings": [_row(each) for each in findings]}, indent=2))
        return
    print_lines(Group(_table(findings), "", _sum(findings)))


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "verdict": finding.verdict.value,
        "finding": printable(finding.finding),
        "advice": printable(finding.advice) or None,
    }


def _table(findings: Sequence[Finding]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for finding in findings:
        if finding.cause is None:
            verdict = Text(finding.verdict.value, _STYLES[finding.verdict])
            table.add_row(Text(printable(finding.check)), verdict, _words(finding))
    for cause in dict.fromkeys(each.cause for each in findings if each.cause is not None):
        names = ", ".join(each.check for each in findings if each.cause == cause)
        words = Text(printable(f"{names}: each needs {cause}"), "dim")
        table.add_row("the rest", Text(Verdict.SKIPPED.value, _STYLES[Verdict.SKIPPED]), words)
    return table


def _words(finding: Finding) -> RenderableType:
    style = "dim" if finding.verdict is Verdict.SKIPPED else ""
    text = Text(printable(finding.finding), style)
    return Group(text, Text(f"→ {printable(finding.advice)}", "italic")) if finding.advice else text


def _sum(findings: Sequence[Finding]) -> Text:
    counts = {each: sum(one.verdict is each for one in findings) for each in Verdict}
    worst = next(
        each
        for each in (Verdict.FAILED, Verdict.WARNING, Verdict.OK)
        if counts[each] or each is Verdict.OK
    )
    parts = ", ".join(_counted(count, each) for each, count in counts.items() if count)
    return Text(f"{parts}.", f"bold {_STYLES[worst].removeprefix('bold ')}")


def _counted(count: int, verdict: Verdict) -> str:
    is_noun = verdict in {Verdict.NOTE, Verdict.WARNING}
    return counted(count, verdict.value) if is_noun else f"{count} {verdict.value}"
