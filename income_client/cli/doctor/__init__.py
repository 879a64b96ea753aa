"""``income-client doctor``: checks configuration, connection and service.

Its output holds no secret, no borrower's data and no id but that of a failed request.
"""

import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from rich.console import Group
from rich.table import Table
from rich.text import Text

from income_client import ConfigurationError, IncomeClientError, RateLimitedError
from income_client.cli.connection import Connection, authority_of, read_settings
from income_client.cli.exit_status import ExitStatus
from income_client.cli.options import TableOrJson
from income_client.cli.output import counted, print_lines, say, write_text
from income_client.cli.progress import Bars
from income_client.system.texts import printable

from .network import Finding, UnansweredError, Verdict, check_connection

if TYPE_CHECKING:
    from income_client.configuration import Configuration

    from .service import Service

Check = Callable[[], Awaitable[Finding]]

_MOST_REQUESTS: Final = 20
_PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
"""Variables that name a proxy for other programs, in upper or lower case."""
_SHOWN: Final = 3
"""Characters shown of a client id or user name, enough to distinguish two of them."""
_CONFIGURE: Final = (
    "run income-client configure, or name a file with --config, or set INCOME_BASE_URL, and "
    "INCOME_CLIENT_ID and INCOME_CLIENT_SECRET or INCOME_USERNAME and INCOME_PASSWORD"
)
_STYLES: Final = {
    Verdict.OK: "green",
    Verdict.NOTE: "cyan",
    Verdict.WARNING: "yellow",
    Verdict.FAILED: "bold red",
    Verdict.SKIPPED: "dim",
}


async def doctor(
    *,
    connection: Connection | None = None,
    output: TableOrJson = "table",
) -> int:
    """Check configuration, connection and service.

    One line for each check: the configuration and where it comes from, the
    connection with its certificate, the credentials, the clock, whether applications
    can be read, whether pages of the list hide some, how many are updated in a day,
    and which zone its times are in.
    It makes at most 20 requests, one after the other, and changes nothing.

    The output can be pasted into a ticket: it shows no secret, no borrower's data
    and no id but that of a failed request, by which the service's owner finds it.
    The exit status is 0 if nothing failed, 2 if the configuration is invalid, 4 if
    the service refused the credentials or the account, else 1.

    Example: income-client doctor --output json

    Args:
        connection: The service.
        output: Format of the output.
    """
    from .service import CHECKS, MOST_SECONDS, Service

    async with AsyncExitStack() as stack:
        try:
            configuration = read_settings(connection)  # may ask for a secret
            service = await stack.enter_async_context(Service.open(configuration))
        except ConfigurationError as error:
            findings = {
                "configuration": Finding(Verdict.FAILED, error.message, _CONFIGURE),
                "proxy": _proxy_finding(None),
                **{name: _skipped_finding("configuration") for name in ("connection", *CHECKS)},
            }
            _show_findings(findings, output)
            return ExitStatus.MISUSED
        say(f"at most {_MOST_REQUESTS} requests in {MOST_SECONDS:g} s, one at a time")
        findings = await _run_checks(configuration, service)
    _show_findings(findings, output)
    if service.is_refused:
        return ExitStatus.REFUSED
    has_failed = any(each.verdict is Verdict.FAILED for each in findings.values())
    return ExitStatus.FAILED if has_failed else ExitStatus.DONE


async def _run_checks(configuration: "Configuration", service: "Service") -> dict[str, Finding]:
    """Run all checks, except those that depend on a failed or skipped one."""
    from .service import CHECKS

    findings = {
        "configuration": _configuration_finding(configuration),
        "proxy": _proxy_finding(configuration),
    }
    connections = _connections_to_check(configuration)
    checks: list[tuple[str, Check, Iterable[str]]] = [
        (name, check, ()) for name, check in connections.items()
    ]
    if not connections:
        text = "DNS, TLS and certificate of the service are not checked through a proxy"
        findings["connection"] = Finding(Verdict.SKIPPED, text)
    for name, (service_check, needs) in CHECKS.items():
        checks.append((name, partial(service_check, service), needs or connections))
    stopped = (Verdict.FAILED, Verdict.SKIPPED)
    with Bars() as bars:
        bar = bars.add_task("Checking", total=len(checks), count="")
        for completed, (name, check, needed) in enumerate(checks):
            bars.update(bar, completed=completed, count=name)
            missing = next((each for each in needed if findings[each].verdict in stopped), None)
            if missing is None:
                findings[name] = await _run_check(check)
            else:
                findings[name] = _skipped_finding(findings[missing].cause or missing)
    return findings


async def _run_check(check: Check) -> Finding:
    """Return the finding of a check; a failed request is a finding too."""
    from .service import LATER

    try:
        return await check()
    except UnansweredError as error:
        return Finding(Verdict.SKIPPED, error.message)
    except RateLimitedError as error:
        pause = "" if error.retry_after is None else f" (retry after {error.retry_after:g} s)"
        return Finding(Verdict.WARNING, f"429 Too Many Requests{pause}", LATER)
    except IncomeClientError as error:
        return Finding(Verdict.WARNING, f"a request failed: {error.message}")
    except (OverflowError, ValueError):
        text = "the service sent a time at the end of the calendar"
        return Finding(Verdict.FAILED, text, "tell the service's owner")


def _skipped_finding(cause: str) -> Finding:
    return Finding(Verdict.SKIPPED, f"needs {cause}", cause=cause)


def _connections_to_check(configuration: "Configuration") -> dict[str, Check]:
    """Return the servers that are reached without a proxy."""
    account, tls = configuration.account, configuration.tls()
    address, tokens = account.base_url or "", account.auth_url
    if account.proxy is not None:
        return {}
    checks: dict[str, Check] = {"connection": partial(check_connection, address, tls)}
    if tokens and not account.username and authority_of(tokens) != authority_of(address):
        checks["connection (token endpoint)"] = partial(check_connection, tokens, tls)
    return checks


def _configuration_finding(configuration: "Configuration") -> Finding:
    """Describe the client's settings and their places."""
    account = configuration.account
    parts = urlsplit(account.base_url or "")
    service = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    tokens = f", tokens from {authority_of(account.auth_url)}" if account.auth_url else ""
    kind, name = ("Basic", account.username) if account.username else ("OAuth 2.0", "")
    name = name or account.client_id or ""
    prefix = name[: min(_SHOWN, len(name) // 2)]
    place = account.place or "the environment"
    others = "".join(f", also {setting}" for setting in configuration.elsewhere.values())
    return Finding(Verdict.OK, f"{service}{tokens}, {kind} as {prefix}…; from {place}{others}")


def _proxy_finding(configuration: "Configuration | None") -> Finding:
    """Name the proxy in use, and a variable that sets a proxy for other programs only."""
    names = [name for name in _PROXIES if os.environ.get(name) or os.environ.get(name.lower())]
    unused = f"{' and '.join(names)} set, and not used"
    if configuration is not None and (proxy := configuration.account.proxy) is not None:
        used = f"{authority_of(proxy.reveal())} of {configuration.setting_name('proxy')} is used"
        return Finding(Verdict.OK, f"{used}; {unused}" if names else used)
    if not names:
        return Finding(Verdict.OK, "none")
    advice = "if a proxy is the only way out, set INCOME_PROXY (in code, the client's proxy)"
    return Finding(Verdict.NOTE, unused, advice)


def _show_findings(findings: Mapping[str, Finding], output: TableOrJson) -> None:
    if output == "table":
        print_lines(Group(_findings_table(findings), "", _summary_of(findings)))
        return
    rows = [
        {
            "check": name,
            "verdict": finding.verdict,
            "finding": printable(finding.text),
            "advice": printable(finding.advice) or None,
        }
        for name, finding in findings.items()
    ]
    write_text(json.dumps({"findings": rows}, indent=2))


def _findings_table(findings: Mapping[str, Finding]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    skipped: dict[str, list[str]] = {}
    for name, finding in findings.items():
        if finding.cause:
            skipped.setdefault(finding.cause, []).append(name)
        else:
            table.add_row(name, *_finding_cells(finding))
    for cause, names in skipped.items():
        rest = Finding(Verdict.SKIPPED, f"{', '.join(names)}: each needs {cause}")
        table.add_row("the rest", *_finding_cells(rest))
    return table


def _finding_cells(finding: Finding) -> tuple[Text, Text]:
    style = "dim" if finding.verdict is Verdict.SKIPPED else ""
    words = Text.assemble((printable(finding.text), style))
    if finding.advice:
        words.append(f"\n→ {printable(finding.advice)}", "italic")
    return Text(finding.verdict, _STYLES[finding.verdict]), words


def _summary_of(findings: Mapping[str, Finding]) -> Text:
    counts = Counter(each.verdict for each in findings.values())
    worst = next((each for each in (Verdict.FAILED, Verdict.WARNING) if counts[each]), Verdict.OK)
    parts = ", ".join(_counted_verdicts(counts[each], each) for each in Verdict if counts[each])
    return Text(f"{parts}.", f"bold {_STYLES[worst]}")


def _counted_verdicts(count: int, verdict: Verdict) -> str:
    is_noun = verdict in (Verdict.NOTE, Verdict.WARNING)
    return counted(count, verdict) if is_noun else f"{count} {verdict}"
