"""``income-client emulate``: runs the emulated service until it is interrupted."""

import asyncio
import itertools
import os
import re
import shlex
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from attrs import asdict, frozen
from cyclopts import Group, Parameter, Token
from cyclopts.validators import Number

from income_client import ConfigurationError, IncomeClientError, Secret, emulator
from income_client.emulator import FutureBounds, Order, ServiceRules, SpanClamp
from income_client.emulator.access import check_token
from income_client.emulator.exchange import check_local_address, is_loopback
from income_client.emulator.times import second_of, stamp
from income_client.system.texts import reason_of

from .callback_credentials import callback_basic
from .exit_status import ExitStatus
from .options import NOW, Switch, When, Whole
from .output import say, write_text
from .signals import StopSignals

if TYPE_CHECKING:
    from income_client.emulator import CallbackTarget, Emulator

_STRIDE: Final = 7919
"""Step from one updated application to the next: a prime, so that each is updated."""
_MOST_CALLBACKS: Final = 16
_TOKEN_VARIABLE: Final = "INCOME_EMULATOR_TOKEN"  # noqa: S105 - the name of a variable
_SIZE: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?) ?([A-Za-z]*)", re.ASCII)
_BYTES: Final = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9,
    "kib": 2**10, "mib": 2**20, "gib": 2**30,
}  # fmt: skip
_LARGEST: Final = 2**31


def _read_size(_: Any, tokens: Sequence[Token]) -> int:
    parts = _SIZE.fullmatch(tokens[0].value.strip())
    if parts is None or parts[2].lower() not in _BYTES:
        raise ValueError("a size is a number of bytes, or one with kB, MB, GB, KiB, MiB or GiB")
    size = Decimal(parts[1]) * _BYTES[parts[2].lower()]
    if size % 1 or not 1 <= size <= _LARGEST:
        raise ValueError("a size is a whole number of bytes, 1 to 2 GiB")
    return int(size)


Size = Annotated[
    int, Parameter(converter=_read_size, metavar="SIZE", n_tokens=1, show_default="20kB")
]
Seconds = Annotated[Whole, Parameter(metavar="SECONDS", validator=Number(gte=0))]
SomeSeconds = Annotated[Whole, Parameter(metavar="SECONDS", validator=Number(gte=1))]
Amount = Annotated[float, Parameter(validator=Number(gte=0))]


@Parameter(name="*", group=Group("How the service behaves", sort_key=1))
@frozen(kw_only=True)
class RuleOptions:
    """Behaviour of the service where its contract is silent: the fields of `ServiceRules`."""

    order: Order = Order.ASCENDING
    """Order of the list by update time; random is a new one for each request."""
    bounds: Literal["neither", "after", "before", "both"] = "neither"
    """Bounds that are inclusive: updated_after, updated_before, both or neither."""
    max_span: Annotated[SomeSeconds | None, Parameter(show_default=False)] = None
    """Widest window that is served; a wider one is narrowed. Default: no limit."""
    span_clamp: SpanClamp = SpanClamp.AFTER
    """The bound that is moved to narrow a window."""
    default_span: Annotated[Seconds | None, Parameter(show_default=False)] = None
    """Seconds by which an unset updated_after reaches back. Default: to the beginning of time."""
    oldest: When | None = None
    """Time before which updates are not kept; UTC if it has no zone."""
    future: FutureBounds = FutureBounds.ACCEPT
    """Treatment of bounds in the future."""
    visibility_delay: Seconds = 0
    """Seconds until an update shows in the list."""
    clock_offset: Annotated[Whole, Parameter(metavar="SECONDS", allow_leading_hyphen=True)] = 0
    """Seconds that the Date header is ahead of service time; behind it below 0."""
    token_lifetime: SomeSeconds = 3600
    """Seconds that a token is valid."""
    url_lifetime: Annotated[SomeSeconds, Parameter(name="--expiry")] = 900
    """Seconds that the address of a file is valid."""
    url_age: Seconds = 0
    """Seconds of its lifetime that have passed when an address is given out."""
    url_signed_once: Switch = False
    """Never sign an address again, expired or not."""
    file_bytes: Annotated[Size, Parameter(name="--file-size")] = 20_000
    """Size of each file, such as 500kB or 3MB."""
    file_redirects: Annotated[Whole, Parameter(metavar="COUNT", validator=Number(gte=0))] = 0
    """Redirects to another host before a file is sent."""

    def rules(self, present: datetime) -> ServiceRules:
        """Return the options as `ServiceRules`."""
        fields = asdict(self, recurse=False)
        bounds, oldest = fields.pop("bounds"), fields.pop("oldest")
        return ServiceRules(
            lower_closed=bounds in ("after", "both"),
            upper_closed=bounds in ("before", "both"),
            oldest=oldest and second_of(oldest.seen_from(present)),
            **fields,
        )


async def emulate(
    *,
    port: Annotated[Whole, Parameter(metavar="PORT", validator=Number(gte=0, lte=65535))] = 0,
    host: Annotated[str, Parameter(metavar="ADDRESS")] = "127.0.0.1",
    allow_host: Annotated[list[str] | None, Parameter(metavar="HOST", negative=())] = None,
    applications: Annotated[Whole, Parameter(metavar="COUNT", validator=Number(gte=0))] = 5000,
    seed: Annotated[Whole, Parameter(metavar="NUMBER")] = 7,
    start: When = NOW,
    latency: Annotated[Amount, Parameter(metavar="SECONDS")] = 0.0,
    updates: Annotated[Amount, Parameter(metavar="COUNT")] = 0.0,
    basic: Annotated[bool, Parameter(negative="--oauth", show_default=False)] = False,
    faults: Annotated[str | None, Parameter(metavar="FAULTS", show_default=False)] = None,
    rules: RuleOptions | None = None,
    callbacks: Annotated[str | None, Parameter(metavar="URL")] = None,
) -> int:
    """Run an emulated service on this machine until Ctrl-C or SIGTERM.

    It prints the environment variables that lead a client to it, as lines for a
    shell. All of its data is invented, the credentials too; its updates lie in the
    90 days before --start.

    Callbacks go to --callbacks, with INCOME_CALLBACK_USERNAME and
    INCOME_CALLBACK_PASSWORD. One that is not taken is sent up to five more times,
    as is assumed of the service.

    With --host 0.0.0.0, clients of other machines and containers reach it too, by
    the names of --allow-host and as localhost. Its control over HTTP, which
    GET /emulator/ lists, is for this machine only, or for whoever sends the token
    of INCOME_EMULATOR_TOKEN.

    --faults says what goes wrong. "503 rate=5%" is a share of all requests, and with
    seed=3 other ones. "file: 503 x2, ok, cut" is about one file after the other, and
    "any: 503 after=60 seconds=30" about a span of time of the API. The guide's page
    "testing" has more. The exit status is 0 after SIGTERM.

    Example: income-client emulate --faults "503 rate=5%; file: cut rate=10%"

    Args:
        port: Port to listen on; 0 takes a free one.
        host: IP address to listen on.
        allow_host: Name by which clients of other hosts reach it. Repeatable.
        applications: Number of applications.
        seed: Random seed; the same one invents the same data.
        start: Service time at the beginning; UTC if it has no zone. Default: now.
        latency: Seconds that each reply takes.
        updates: Applications that change each second. Each change sends a callback.
        basic: Print Basic credentials, not OAuth; both are accepted. Default: --oauth.
        faults: What goes wrong, as "503 rate=5%; file: cut rate=10%".
        rules: How the service behaves where its contract is silent.
        callbacks: Address on this machine that callbacks go to.
    """
    target = None if callbacks is None else _callback_target(callbacks)
    present = datetime.now(UTC).replace(tzinfo=None)
    if start != NOW:
        present = start.seen_from(present)
    stop = asyncio.Event()
    signals = StopSignals(stop.set)
    token = _control_token()
    is_open = allow_host or not is_loopback(f"[{host}]" if ":" in host else host)
    service = emulator.Emulator(
        applications,
        seed=seed,
        start=present,
        time_flows=True,
        latency=latency,
        port=port,
        rules=(rules or RuleOptions()).rules(present),
        callbacks=target,
        host=host,
        allow_hosts=allow_host or () if is_open else None,
        control_token=token,
    )
    if faults is not None:
        _add_faults(service, faults)
    try:
        await service.start()
    except OSError as error:
        raise IncomeClientError(f"--host {host} --port {port}: {reason_of(error)}") from None
    try:
        write_text(*_lines_about(service, basic=basic))
        if is_open:
            write_text(*_lines_for_others(service, allow_host or (), token))
        await _run_emulator(service, updates, stop)
    finally:
        await service.close()
    if faults is not None:
        _say_faults(service)
    return ExitStatus.INTERRUPTED if signals.received is signal.SIGINT else ExitStatus.DONE


def _add_faults(service: "Emulator", text: str) -> None:
    try:
        service.faults.add(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"--faults: {error.message}") from None
    if not len(service.faults):
        raise ConfigurationError("--faults: it names no fault")


def _say_faults(service: "Emulator") -> None:
    faults = service.faults
    counts = ", ".join(f"{name} {count:,}" for name, count in sorted(faults.played.items()))
    total = faults.played.total()
    say(f"faults: {total:,} of {faults.requests:,} requests ({counts or 'none'})")


def _lines_about(service: "Emulator", *, basic: bool) -> Iterator[str]:
    yield f"# {len(service.world):,} invented applications at {service.url}; Ctrl-C ends it."
    yield f"# Service time is {stamp(service.now)}, and passes."
    yield f"# In a browser, {service.url} shows what is asked of it, and controls it."
    variables = {"BASE_URL": service.url}
    if basic:
        variables["USERNAME"] = service.basic.username
        variables["PASSWORD"] = service.basic.password.reveal()
    else:
        variables["CLIENT_ID"] = service.oauth2.client_id
        variables["CLIENT_SECRET"] = service.oauth2.client_secret.reveal()
    for name, value in variables.items():
        yield f"export INCOME_{name}={shlex.quote(value)}"
    target = service.callbacks
    if target is not None:
        where = target.url.partition("?")[0]
        yield f"# Callbacks go to {where}; income-client trigger sends one."
        if target.auth is None:
            yield "# They carry no credentials: INCOME_CALLBACK_USERNAME is not set."
    host = urlsplit(service.url).hostname
    application_id = service.world.ids[0] if service.world.ids else "APPLICATION_ID"
    yield f"# Its files: income-client download --to files --allow-host {host} {application_id}"


def _lines_for_others(
    service: "Emulator", names: Sequence[str], token: Secret | None
) -> Iterator[str]:
    port = urlsplit(service.url).port
    addresses = (
        f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}" for name in names
    )
    if names:
        yield f"# Other hosts reach it at {', '.join(addresses)}."
    else:
        yield "# Other hosts reach it as localhost, by a published port; --allow-host adds names."
    if token is None:
        yield f"# They may not control it: {_TOKEN_VARIABLE} is not set."


def _control_token() -> Secret | None:
    """Return the control token of the environment."""
    text = os.environ.get(_TOKEN_VARIABLE)
    if not text:
        return None
    token = Secret(text)
    check_token(token, _TOKEN_VARIABLE)
    return token


async def _run_emulator(service: "Emulator", updates: float, stop: asyncio.Event) -> None:
    """Update applications until the command is stopped."""
    counts = Counter[str]()
    async with asyncio.TaskGroup() as group:
        updating = group.create_task(_update_applications(service, updates, counts))
        await stop.wait()
        updating.cancel()
    if counts:
        text = f"callbacks: {counts['delivered']:,} delivered, {counts['failed']:,} not"
        if counts["skipped"]:
            text += f", {counts['skipped']:,} skipped while {_MOST_CALLBACKS} were under way"
        say(text)


async def _update_applications(service: "Emulator", updates: float, counts: Counter[str]) -> None:
    """Update applications one after another, each with a callback if not too many wait."""
    ids = service.world.ids
    if not (updates and ids):
        return
    room = asyncio.Semaphore(_MOST_CALLBACKS)

    async def send(name: str) -> None:
        async with room:
            delivery = await service.fire_callback(name)
        counts["delivered" if delivery.delivered else "failed"] += 1

    async with asyncio.TaskGroup() as group:
        for turn in itertools.count():
            await asyncio.sleep(1 / updates)
            name = ids[turn * _STRIDE % len(ids)]
            if service.world.number_of(name) is None:  # removed meanwhile
                continue
            service.touch(name)
            if service.callbacks is None:
                continue
            if room.locked():
                counts["skipped"] += 1
            else:
                group.create_task(send(name))


def _callback_target(url: str) -> "CallbackTarget":
    """Return the target of callbacks, with the credentials of the environment."""
    check_local_address("--callbacks", url)
    return emulator.CallbackTarget(url, auth=callback_basic())
