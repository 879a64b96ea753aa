"""``income-client emulate``: runs the emulated service until it is interrupted."""

import asyncio
import itertools
import os
import re
import secrets
import shlex
import signal
import ssl
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
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
from income_client.texts import reason_of

from .exit_status import ExitStatus
from .options import NOW, Switch, When, Whole
from .output import say, write_text
from .running import (
    CALLBACK_PREFIX,
    Credentials,
    announced,
    announcement,
    credentials_from,
)
from .signals import StopSignals

if TYPE_CHECKING:
    from income_client.emulator import CallbackTarget, Emulator

_STRIDE: Final = 7919
"""From one updated application to the next: a prime, so that each has its turn."""
_MOST_CALLBACKS: Final = 16
_LOOK_SECONDS: Final = 0.2
"""How soon a listener that begins or ends is noticed."""


_TOKEN_VARIABLE: Final = "INCOME_EMULATOR_TOKEN"  # noqa: S105 - the name of a variable
_TOKEN_FILE_VARIABLE: Final = "INCOME_EMULATOR_TOKEN_FILE"  # noqa: S105 - as above

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
File = Annotated[Path | None, Parameter(metavar="FILE")]
Url = Annotated[str | None, Parameter(metavar="URL")]


@Parameter(name="*", group=Group("How the service behaves", sort_key=1))
@frozen(kw_only=True)
class RuleOptions:
    """How the service behaves where its contract is silent: the fields of `ServiceRules`."""

    order: Order = Order.ASCENDING
    """Order of the list by update time; random is a new one for each request."""
    bounds: Literal["neither", "after", "before", "both"] = "neither"
    """Which of updated_after and updated_before are inclusive."""
    max_span: Annotated[SomeSeconds | None, Parameter(show_default=False)] = None
    """Widest window that is served; a wider one is narrowed. Default: no limit."""
    span_clamp: SpanClamp = SpanClamp.AFTER
    """The bound that is moved to narrow a window."""
    default_span: Annotated[Seconds | None, Parameter(show_default=False)] = None
    """How far an unset updated_after reaches back. Default: to the beginning of time."""
    oldest: When | None = None
    """Time before which updates are not kept; UTC if it has no zone."""
    future: FutureBounds = FutureBounds.ACCEPT
    """What is done with bounds in the future."""
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
        """Return the same in the emulator's words."""
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
    remote_control: Switch = False,
    applications: Annotated[Whole, Parameter(metavar="COUNT", validator=Number(gte=0))] = 5000,
    seed: Annotated[Whole, Parameter(metavar="NUMBER")] = 7,
    start: When = NOW,
    latency: Annotated[Amount, Parameter(metavar="SECONDS")] = 0.0,
    updates: Annotated[Amount, Parameter(metavar="COUNT")] = 0.0,
    basic: Annotated[bool, Parameter(negative="--oauth", show_default=False)] = False,
    faults: Annotated[str | None, Parameter(metavar="FAULTS", show_default=False)] = None,
    rules: RuleOptions | None = None,
    callbacks: Url = None,
    callback_token_url: Url = None,
    callback_certificate: File = None,
    callback_key: File = None,
    callback_ca: File = None,
) -> int:
    """Run an emulated service on this machine until Ctrl-C or SIGTERM.

    It prints the environment variables that lead a client to it, as lines for a
    shell. All of its data is invented, the credentials too; its updates lie in the
    90 days before --start.

    Callbacks go to --callbacks, or to the income-client listen that runs on this
    machine. Those to --callbacks carry INCOME_CALLBACK_USERNAME and
    INCOME_CALLBACK_PASSWORD, or a token for INCOME_CALLBACK_CLIENT_ID and
    INCOME_CALLBACK_CLIENT_SECRET. One that is not taken is sent up to five more
    times, as is assumed of the service.

    With --host 0.0.0.0, clients of other machines and containers reach it too, by
    the names of --allow-host and as localhost. Its control over HTTP, which
    GET /emulator/ lists, is for this machine only, or for whoever sends the token
    of INCOME_EMULATOR_TOKEN, or of the file that INCOME_EMULATOR_TOKEN_FILE names.

    --faults says what goes wrong. "503 rate=5%" is a share of all requests, and with
    seed=3 other ones. "file: 503 x2, ok, cut" is about one file after the other, and
    "any: 503 after=60 seconds=30" about a span of time of the API. The guide's page
    "testing" has more. The exit status is 0 after SIGTERM.

    Example: income-client emulate --faults "503 rate=5%; file: cut rate=10%"

    Args:
        port: Port to listen on; 0 takes a free one.
        host: IP address to listen on.
        allow_host: Name by which clients of other hosts reach it. Repeatable.
        remote_control: Make a control token for other hosts and print it.
        applications: Number of applications.
        seed: Random seed; the same one invents the same data.
        start: Service time at the beginning; UTC if it has no zone. Default: now.
        latency: Seconds that each reply takes.
        updates: Applications that change each second. Each change sends a callback.
        basic: Print Basic credentials, not OAuth; both are accepted. Default: --oauth.
        faults: What goes wrong, as "503 rate=5%; file: cut rate=10%".
        rules: How the service behaves where its contract is silent.
        callbacks: Address on this machine that callbacks go to.
        callback_token_url: Address on this machine that issues tokens for them.
        callback_certificate: File with the client certificate that they use.
        callback_key: File with its private key.
        callback_ca: File with the authorities that the server is checked by.
    """
    target = _callback_target(
        callbacks, callback_token_url, callback_certificate, callback_key, callback_ca
    )
    present = datetime.now(UTC).replace(tzinfo=None)
    if start != NOW:
        present = start.seen_from(present)
    stop = asyncio.Event()
    signals = StopSignals(stop.set)
    token = _control_token(is_new=remote_control)
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
        raise IncomeClientError(f"--host {host} --port {port}: {reason_of(error)}")
    known = Credentials(basic=service.basic, oauth2=service.oauth2)
    try:
        with announced("emulate", {"url": service.url, **known.facts()}):
            write_text(*_lines_about(service, known, basic=basic))
            if is_open:
                write_text(*_lines_for_others(service, allow_host or (), token))
            if remote_control and token is not None:
                write_text(f"export {_TOKEN_VARIABLE}={token.reveal()}")
            await _run_emulator(service, target, updates, stop)
    finally:
        await service.close()
    if faults is not None:
        _say_faults(service)
    return ExitStatus.INTERRUPTED if signals.received is signal.SIGINT else ExitStatus.DONE


def _add_faults(service: "Emulator", text: str) -> None:
    try:
        service.faults.add(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"--faults: {error.message}")
    if not len(service.faults):
        raise ConfigurationError("--faults: it names no fault")


def _say_faults(service: "Emulator") -> None:
    faults = service.faults
    counts = ", ".join(f"{name} {count:,}" for name, count in sorted(faults.played.items()))
    total = faults.played.total()
    say(f"faults: {total:,} of {faults.requests:,} requests ({counts or 'none'})")


def _lines_about(service: "Emulator", known: Credentials, *, basic: bool) -> Iterator[str]:
    yield f"# {len(service.world):,} invented applications at {service.url}; Ctrl-C ends it."
    yield f"# Service time is {stamp(service.now)}, and passes."
    yield f"# In a browser, {service.url} shows what is asked of it, and controls it."
    shown = Credentials(basic=known.basic) if basic else Credentials(oauth2=known.oauth2)
    for name, value in {"BASE_URL": service.url, **shown.facts()}.items():
        yield f"export INCOME_{name}={shlex.quote(value)}"
    if service.callbacks is None:
        yield "# Callbacks go to income-client listen while it runs; trigger sends one."
    else:
        where = service.callbacks.url.partition("?")[0]
        yield f"# Callbacks go to {where}; income-client trigger sends one."
        if service.callbacks.auth is None and service.callbacks.ssl is None:
            yield f"# They carry no credentials: no {CALLBACK_PREFIX}... was set."
    host = urlsplit(service.url).hostname
    one = service.world.ids[0] if service.world.ids else "APPLICATION_ID"
    yield f"# Its files: income-client download --to files --allow-host {host} {one}"


def _lines_for_others(
    service: "Emulator", names: Sequence[str], token: Secret | None
) -> Iterator[str]:
    port = urlsplit(service.url).port
    shown = (
        f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}" for name in names
    )
    if names:
        yield f"# Other hosts reach it at {', '.join(shown)}."
    else:
        yield "# Other hosts reach it as localhost, by a published port; --allow-host adds names."
    if token is None:
        yield f"# They may not control it: {_TOKEN_VARIABLE} is not set."


def _control_token(*, is_new: bool) -> Secret | None:
    """Return a new control token, or the one that the environment gives."""
    text, path = (os.environ.get(name) for name in (_TOKEN_VARIABLE, _TOKEN_FILE_VARIABLE))
    if sum((is_new, bool(text), bool(path))) > 1:
        raise ConfigurationError(
            f"set one of --remote-control, {_TOKEN_VARIABLE} and {_TOKEN_FILE_VARIABLE}"
        )
    if is_new:
        return Secret(secrets.token_urlsafe(24))
    if path:
        try:
            text = Path(path).read_text("utf-8").strip()
        except UnicodeDecodeError:
            raise ConfigurationError(f"{_TOKEN_FILE_VARIABLE}: the file is not UTF-8")
        except OSError as error:
            raise ConfigurationError(f"{_TOKEN_FILE_VARIABLE}: {reason_of(error)}")
    if not (path or text):
        return None
    token = Secret(text or "")
    check_token(token, f"the token in {_TOKEN_FILE_VARIABLE}" if path else _TOKEN_VARIABLE)
    return token


async def _run_emulator(
    service: "Emulator", target: "CallbackTarget | None", updates: float, stop: asyncio.Event
) -> None:
    """Update applications until it is to stop, and have callbacks go where they should."""
    counts = Counter[str]()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_follow_listener(service, target)),
            group.create_task(_update_applications(service, updates, counts)),
        ]
        await stop.wait()
        for task in tasks:
            task.cancel()
    if counts:
        text = f"callbacks: {counts['delivered']:,} delivered, {counts['failed']:,} not"
        if counts["skipped"]:
            text += f", {counts['skipped']:,} skipped while {_MOST_CALLBACKS} were under way"
        say(text)


async def _update_applications(service: "Emulator", updates: float, counts: Counter[str]) -> None:
    """Update one application after the other, each with a callback if there is room for it."""
    ids = service.world.ids
    if not (updates and ids):
        return
    room = asyncio.Semaphore(_MOST_CALLBACKS)

    async def send(name: str, target: "CallbackTarget") -> None:
        async with room:
            delivery = await service.fire_callback(name, target=target)
        counts["delivered" if delivery.delivered else "failed"] += 1

    async with asyncio.TaskGroup() as group:
        for turn in itertools.count():
            await asyncio.sleep(1 / updates)
            name = ids[turn * _STRIDE % len(ids)]
            if service.world.number_of(name) is None:  # removed meanwhile
                continue
            service.touch(name)
            target = service.callbacks
            if target is not None and room.locked():
                counts["skipped"] += 1
            elif target is not None:
                group.create_task(send(name, target))


async def _follow_listener(service: "Emulator", target: "CallbackTarget | None") -> None:
    """Have callbacks go to the listener that runs, unless they are to go elsewhere."""
    while True:
        there = _find_listener()
        if target is not None and (target.auth or there is None or there.url != target.url):
            there = target
        if there != service.callbacks:
            service.callbacks = there
            if there is None:
                say("callbacks go nowhere: income-client listen has ended")
            elif there is not target:
                say(f"callbacks go to {there.url}, where income-client listen runs")
        await asyncio.sleep(_LOOK_SECONDS)


def _find_listener() -> "CallbackTarget | None":
    """Return the running listener as a target."""
    facts = announcement("listen")
    if facts is None:
        return None
    # Its host may be a name that callbacks do not go to, such as my.localhost.
    with suppress(ConfigurationError):
        known = credentials_from(facts)
        if known.basic is not None:
            return emulator.CallbackTarget(facts["url"], auth=known.basic)
        token_url = facts["token_url"]
        return emulator.CallbackTarget(facts["url"], auth=known.oauth2, token_url=token_url)
    return None


def _callback_target(
    url: str | None,
    token_url: str | None,
    certificate: Path | None,
    key: Path | None,
    ca: Path | None,
) -> "CallbackTarget | None":
    """Return where callbacks go, with the credentials of the environment."""
    has_tls = any(path is not None for path in (certificate, key, ca))
    if url is None:
        if has_tls or token_url is not None:
            raise ConfigurationError("options of callbacks need --callbacks")
        return None
    check_local_address("--callbacks", url)
    if token_url is not None:
        check_local_address("--callback-token-url", token_url)
    if has_tls and not any(one and one.startswith("https:") for one in (url, token_url)):
        raise ConfigurationError("certificates need an https address in --callbacks")
    known = credentials_from(os.environ, CALLBACK_PREFIX)
    if token_url is not None and known.oauth2 is None:
        raise ConfigurationError(
            "--callback-token-url needs INCOME_CALLBACK_CLIENT_ID and INCOME_CALLBACK_CLIENT_SECRET"
        )
    if token_url is None and known.basic is None and known.oauth2 is not None:
        raise ConfigurationError("INCOME_CALLBACK_CLIENT_ID needs --callback-token-url")
    return emulator.CallbackTarget(
        url,
        auth=known.basic if token_url is None else known.oauth2,
        token_url=token_url,
        ssl=_client_context(certificate, key, ca) if has_tls else None,
    )


def _client_context(certificate: Path | None, key: Path | None, ca: Path | None) -> ssl.SSLContext:
    if (certificate is None) is not (key is None):
        raise ConfigurationError("--callback-certificate and --callback-key go together")
    context = ssl.create_default_context()
    try:
        if ca is not None:
            context.load_verify_locations(ca)
    except OSError:
        raise IncomeClientError(f"--callback-ca: {ca} holds no certificate")
    try:
        if certificate is not None and key is not None:
            # Without a password OpenSSL would ask at the terminal.
            context.load_cert_chain(certificate, key, password=lambda: "")
    except OSError:
        raise IncomeClientError(
            f"{certificate} and {key} are not a certificate with its unencrypted private key"
        )
    return context
