"""``income-client download``: puts the files of documents into a folder, and lists them there."""

import re
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from income_client import ApplicationPaginator, ConfigurationError, IncomeClient

from .config import Connection, connect
from .downloads.bars import Bars
from .downloads.hosts import HostsOption, download_policy
from .downloads.manifest import MANIFEST, Manifest
from .downloads.run import DownloadRun, Wanted
from .exit_status import ExitStatus
from .options import (
    STANDARD_INPUT,
    Chosen,
    DocumentTypes,
    IdArgument,
    Moment,
    Switch,
    TypesOption,
    When,
    ends_before_it_begins,
    overfull,
    span_between,
)
from .output import QuietOption, reason_of
from .progress import say_warnings
from .signals import Stoppable, StopSignals

_SERVICE_CONCURRENCY: Final = 16
_EXTENSION: Final = ".{ext}"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_NAMES_HELP: Final = (
    "what files are called there. Fields: application_id, document_type, document_id, file, "
    "file_reference_id and ext; without a folder they end with .{ext}. Files that the manifest "
    "lists stay where they are, and are not asked for."
)


def _names(_: Any, template: str) -> None:
    # A name of the lender's own could be the manifest's; no file's extension is.
    if "/" not in template and not template.endswith(_EXTENSION):
        raise ValueError(
            f"without a folder it must end with {_EXTENSION}, "
            f"since a file could take the place of {MANIFEST}"
        )


def _folder(_: Any, to: Path) -> None:
    if to.parts and _SCHEME.fullmatch(to.parts[0]):
        raise ValueError("this is an address, and --to is a folder of this machine")


async def download(
    *applications: IdArgument,
    to: Annotated[Path, Parameter(validator=_folder)],
    updated_after: When | None = None,
    updated_before: When | None = None,
    type_: TypesOption = (),
    names: Annotated[
        str, Parameter(validator=_names, help=_NAMES_HELP)
    ] = "{application_id}/{document_type}/{document_id}-{file}.{ext}",
    concurrency: Annotated[int, Parameter(validator=Number(gte=1))] = 8,
    overwrite: Switch = False,
    allow_host: HostsOption = (),
    allow_private_networks: Switch = False,
    quiet: QuietOption = False,
    connection: Connection | None = None,
) -> int:
    """Put the files of applications' documents into a folder.

    Whose, is told by ids, by - for those on standard input (one a line, or JSON as
    applications and poll write it), or by a span of which everything that was
    updated is meant. Times are ISO 8601, or go back from now: 12h, 7d, beginning.

    The path of each file goes to standard output once it is whole. The folder's
    manifest.jsonl then gets a line of JSON about it, with its size and SHA-256;
    neither has an address or a name of anybody. Run it again, and it goes on where
    it was: a file that is listed and still as it was is not asked for, and what
    came of the others is not asked for twice. Bars go to standard error if that is
    a terminal and no pipe takes the paths, and a summary at the end.

    What fails is said, and keeps nothing else from coming. Ctrl-C and SIGTERM stop
    it, with the parts that came kept for the next run; a second one ends it at
    once. Parts are hidden files beside the places of the whole ones. The exit
    status is 0 if all is there, 1 if something failed or no document has a type
    that was asked for (paystub may be missing), 4 if the credentials are refused,
    130 after Ctrl-C, 143 after SIGTERM, and 141 when nobody reads the output any
    more. Address and credentials come from the environment or a file, as for poll.

    Example: income-client download app-000001 app-000002 --to files --type paystub
    income-client applications -q | income-client download - --to files

    Args:
        applications: whose documents; - for ids on standard input, one a line.
        updated_after: in place of ids: all that were updated after this time, as 7d or 2026-01-31.
        updated_before: the same, before this time.
        to: folder for the files; made if there is none.
        type_: only documents of this type, such as paystub; may be repeated.
        names: what files are called there.
        concurrency: files on their way at a time.
        overwrite: ask for files that are there too, and replace those that differ.
        allow_host: another host that files may come from; may be repeated.
        allow_private_networks: let the hosts allowed be in private networks.
        quiet: no bars and no summary; failures are still said.
        connection: which service.

    Returns:
        The exit status: 1 for a failure, 2 for names that cannot be meant,
            130 after Ctrl-C, 143 after SIGTERM.
    """
    fault = _contradiction(applications, updated_after, updated_before)
    bars = Bars(is_wanted=not quiet)
    if fault is not None:
        bars.say(fault)
        return ExitStatus.MISUSED
    say_warnings(bars.say)
    async with connect(
        connection,
        downloads=download_policy(allow_host, is_private_allowed=allow_private_networks),
        concurrency=max(_SERVICE_CONCURRENCY, concurrency),
    ) as client:
        try:
            # Only for its checks, before a folder is made: nothing begins until it is iterated.
            client.download_all((), to, names=names)
        except ConfigurationError as error:
            bars.say(f"--names: {error.message}")
            return ExitStatus.MISUSED
        changed = None
        if not applications:
            changed = await _changed(client, updated_after, updated_before)
        elif STANDARD_INPUT in applications and sys.stdin.isatty():
            bars.say("ids are read from this terminal; Ctrl-D ends them")
        chosen = Chosen(applications, changed, on_known=bars.expect)
        wanted = Wanted(
            applications=chosen.ids(),
            types=DocumentTypes(type_),
            concurrency=concurrency,
            overwrite=overwrite,
        )
        stop = Stoppable()
        run = DownloadRun(wanted, to, bars, stop)
        signals = StopSignals(stop.stop)
        try:
            manifest = Manifest(to)
        except OSError as error:
            bars.say(f"cannot keep {MANIFEST} in {to}: {reason_of(error)}")
            return ExitStatus.FAILED
        with manifest:
            downloads = client.download_all(
                run.missing(client, manifest),
                to,
                concurrency,
                names=names,
                overwrite=overwrite,
                keep_partial=True,
                on_progress=bars.move,
                on_error="yield",
            )
            async with bars:
                failure = await run.take(downloads, manifest)
    return _concluded(run, chosen, bars, failure, signals.received, is_told=not quiet)


def _concluded(
    run: DownloadRun,
    chosen: Chosen,
    bars: Bars,
    failure: str | None,
    received: signal.Signals | None,
    *,
    is_told: bool,
) -> int:
    """Say what it came to, and return the exit status."""
    if failure is not None:
        bars.say(failure)
    for window in chosen.saturated:
        bars.say(overfull(window))
    types = run.types
    if types.missing is not None and received is None:
        bars.say(types.missing)
    for told in run.refusals.rest():
        bars.say(told)
    if is_told:
        bars.say(f"{run.summary}{'; interrupted, run it again to go on' * bool(received)}")
    if received is not None:
        return ExitStatus.of_signal(received)
    is_complete = failure is None and run.tally.is_complete and not chosen.saturated
    is_complete = is_complete and types.are_known
    return ExitStatus.DONE if is_complete else ExitStatus.FAILED


def _contradiction(
    applications: tuple[str, ...], after: Moment | None, before: Moment | None
) -> str | None:
    has_span = after is not None or before is not None
    if has_span and applications:
        return "either APPLICATION_IDs, or --updated-after and --updated-before"
    if ends_before_it_begins(after, before):
        return "--updated-after is later than --updated-before"
    if not has_span and not applications:
        return "name one APPLICATION_ID or more, - for standard input, or a span: --updated-after"
    return None


async def _changed(
    client: IncomeClient, after: Moment | None, before: Moment | None
) -> ApplicationPaginator:
    span = await span_between(client, after, before)
    return client.list_applications(span.after, span.before, on_saturated="report")
