"""``income-client download``: puts the files of documents into a folder, and lists them there."""

import os
import re
import signal
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from income_client import ConfigurationError, DownloadPolicy, IncomeClient

from .download_bars import Bars
from .download_run import DownloadRun, Wanted
from .manifest import MANIFEST, Manifest
from .package_warnings import say_warnings
from .stop_signals import StopSignals

_FAILED: Final = 1
_MISUSED: Final = 2
_STATUSES: Final = {signal.SIGINT: 130, signal.SIGTERM: 143}
_SERVICE_CONCURRENCY: Final = 16
_EXTENSION: Final = ".{ext}"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_THIS_MACHINE: Final = re.compile(
    r"(localhost|127(\.[0-9]+){3}|\[::1\])(:([0-9]+|\*))?", re.IGNORECASE
)

Switch = Annotated[bool, Parameter(negative=(), show_default=False)]


def _host(_: Any, entries: tuple[str, ...]) -> None:
    try:
        DownloadPolicy(allowed_hosts=entries or ("localhost",))
    except ConfigurationError as error:
        raise ValueError(error.message) from None


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
    *applications: Annotated[str, Parameter(name="APPLICATION_ID", required=True)],
    to: Annotated[Path, Parameter(validator=_folder)],
    type_: Annotated[
        tuple[str, ...], Parameter(name="--type", negative=(), show_default=False)
    ] = (),
    names: Annotated[
        str, Parameter(validator=_names)
    ] = "{application_id}/{document_type}/{document_id}-{file}.{ext}",
    concurrency: Annotated[int, Parameter(validator=Number(gte=1))] = 8,
    overwrite: Switch = False,
    allow_host: Annotated[
        tuple[str, ...], Parameter(validator=_host, negative=(), show_default=False)
    ] = (),
    quiet: Switch = False,
) -> int:
    """Put the files of documents into a folder, and list them there.

    Args:
        applications: whose documents.
        to: folder for the files; made if there is none.
        type_: only documents of this type, such as paystub; may be repeated.
        names: what files are called there. Fields: application_id, document_type,
            document_id, file, file_reference_id and ext; without a folder they end
            with .{ext}. Files that the manifest lists stay where they are, and are not asked for.
        concurrency: files on their way at a time.
        overwrite: ask for files that are there too, and replace those that differ.
        allow_host: another host that files may come from, as name, *.domain, address or
            with :port; may be repeated. One that names this machine (localhost, 127.0.0.1,
            [::1]) also allows http and private networks, for any host allowed.
        quiet: no bars and no summary; failures are still said.

    Returns:
        The exit status: 1 for a failure, 2 for names that cannot be meant,
            130 after Ctrl-C, 143 after SIGTERM.
    """
    ids = tuple(dict.fromkeys(applications))
    wanted = Wanted(
        applications=ids,
        document_types=frozenset(type_),
        concurrency=concurrency,
        overwrite=overwrite,
    )
    bars = Bars(len(ids), is_wanted=not quiet)
    say_warnings(bars.say)
    run = DownloadRun(wanted, to, bars)
    signals = StopSignals(run.stop)
    async with IncomeClient.from_env(
        downloads=_policy(allow_host), concurrency=max(_SERVICE_CONCURRENCY, concurrency)
    ) as client:
        try:
            manifest = Manifest(to)
        except OSError as error:
            bars.say(f"cannot keep {MANIFEST} in {to}: {_reason(error)}")
            return _FAILED
        with manifest:
            try:
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
            except ConfigurationError as error:
                bars.say(f"--names: {error.message}")
                return _MISUSED
            async with bars:
                failure = await run.take(downloads, manifest)
    if failure is not None:
        bars.say(failure)
    if run.unseen:
        bars.say(f"no document of type {run.unseen}")
    is_interrupted = signals.received is not None
    if not quiet:
        bars.say(f"{run.summary}{'; interrupted, run it again to go on' * is_interrupted}")
    if signals.received is not None:
        return _STATUSES[signals.received]
    return 0 if failure is None and run.tally.is_complete else _FAILED


def _policy(hosts: tuple[str, ...]) -> DownloadPolicy:
    default = DownloadPolicy()
    # An address of this machine never leaves it: nobody else reads what http would show.
    is_local = any(map(_THIS_MACHINE.fullmatch, hosts))
    return DownloadPolicy(
        allowed_hosts=(*default.allowed_hosts, *hosts),
        require_https=not is_local,
        allow_private_networks=is_local,
    )


def _reason(error: OSError) -> str:
    return (os.strerror(error.errno) if error.errno else str(error.strerror)).lower()
