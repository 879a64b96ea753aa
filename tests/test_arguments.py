"""Every argument that is refused at once, and what the error says of it: one row each.

A call is given what is valid but for what its row changes. Nothing is sent. In the words,
``{}`` is the value as it is shown: a number or a name itself, of others the type.
"""

import inspect
import io
import math
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from faststream.nats import NatsBroker
from tenacity import retry_any, wait_none

from income_client import (
    ApplicationRecord,
    BasicAuth,
    CallbackBasicAuth,
    CallbackBearerAuth,
    CallbackClientCertificate,
    CallbackSourceNetworks,
    CallbackTokenIssuer,
    ConfigurationError,
    DownloadPolicy,
    IncomeClient,
    MemoryCheckpointStore,
    OAuth2ClientCredentials,
    ParquetTables,
    RetryPolicy,
    Secret,
    SQLiteCheckpointStore,
    StoredToken,
    Timeouts,
    Window,
    from_json,
    to_arrow,
    to_json,
)
from income_client.emulator import (
    CallbackTarget,
    Emulator,
    Fault,
    FaultKind,
    Faults,
    RemoteEmulator,
    ServiceRules,
)
from income_client.engines.faststream import update_subscriber
from income_client.engines.nats import NatsTokenStore
from income_client.engines.relay import UpdateEvent
from income_client.receivers import CallbackReceiver
from income_client.receivers.networks import TrustedProxies
from income_client.testing import make_document, make_record
from tests.support.canaries import SECRET
from tests.support.signed_tokens import public_jwk

URL: Final = "https://income.example"
JWKS: Final = "https://id.example.test/keys"
ISSUER: Final = "https://id.example.test/"
LONG: Final = f"{SECRET}-that-is-long-enough-for-tokens"
NOW: Final = datetime(2026, 6, 30, 12, tzinfo=UTC)
PROXY: Final = f"http://user:{SECRET}@10.0.0.1:3128"
BASIC: Final = BasicAuth("user", SECRET)
OAUTH2: Final = OAuth2ClientCredentials("id", SECRET)
CALLBACKS: Final = CallbackBasicAuth("service", SECRET)
KEY: Final = public_jwk("P-256")
EMPTY: Final[Any] = None
PAYLOAD: Final = {"ssn": SECRET}
BYTES: Final = SECRET.encode()
NO_TEXT: Final = Secret(f"{SECRET}\udcff")
CLIENT: Final[Any] = IncomeClient(URL, auth=BASIC)


async def waits(_: object = None) -> None:
    """Be what has to be awaited."""


async def yields(_: object = None) -> AsyncIterator[None]:
    """Be what has to be iterated."""
    yield


def generates(_: object = None) -> Iterator[None]:
    """Be what has to be iterated, too."""
    yield


class Waits:
    """Has calls that have to be awaited."""

    async def __call__(self, _: object = None) -> None:
        """Be awaited."""

    method = __call__


NO_PLAIN_FUNCTIONS: Final = (
    waits, yields, generates, Waits(), Waits().method, partial(partial(waits), 1),
    partial(Waits(), 1), 7, "print",
)  # fmt: skip
"""Hooks that would do nothing: what they return has to be awaited or iterated."""


FIELDS: Final = (
    "; there are application_id, document_type, document_id, file, file_reference_id, ext"
)
NO_NETWORK: Final = "{} is neither an IP address nor a network; the host bits of a network are zero"
NO_AUDIENCES: Final[list[Any]] = [[], "", b"x", [b"x"], [""], ["a", ""], [5], {}]
NO_CREDENTIAL: Final = "holds a character that a Basic credential cannot carry"
AUTHS: Final = (
    "auth must be a CallbackBasicAuth, a CallbackBearerAuth such as the .auth of a "
    "CallbackTokenIssuer, a CallbackClientCertificate, CallbackSourceNetworks, or several of them"
)
HERE: Final = "http or https address of this machine, such as http://127.0.0.1:9000/callbacks"
PLAIN_HTTP: Final = (
    "is http, and proxy is on another machine; credentials go through a proxy only inside TLS"
)


def valid(make: Callable[..., object], **usual: Any) -> Callable[..., object]:
    """Return a call with valid arguments, but for those that it is given."""
    return lambda **changed: make(**usual | changed)


CALLS: Final[dict[str, Callable[..., object]]] = {
    **{name: getattr(CLIENT, name) for name in (
        "with_options", "get_application_page", "get_application", "get_documents",
        "find_application", "list_applications",
    )},
    **{call.__name__: call for call in (
        Timeouts, RetryPolicy, Secret, DownloadPolicy, SQLiteCheckpointStore, ParquetTables,
        to_arrow, CallbackClientCertificate, CallbackSourceNetworks, TrustedProxies, to_json,
        ServiceRules, make_document, make_record,
    )},
    "IncomeClient": valid(IncomeClient, base_url=URL, auth=BASIC),
    "get_json": valid(CLIENT.get_json, path="/v1/x"),
    "audit": valid(CLIENT.audit, held={}),
    "fetch_records": valid(CLIENT.fetch_records, applications=[]),
    "fetch_documents": valid(CLIENT.fetch_documents, applications=[]),
    "download": valid(CLIENT.download, document=make_document(), destination=Path("x")),
    "download_all": valid(CLIENT.download_all, documents=[], directory=Path("x")),
    "poll": valid(CLIENT.poll, checkpoints=MemoryCheckpointStore()),
    "BasicAuth": valid(BasicAuth, username="u", password=SECRET),
    "OAuth2ClientCredentials": valid(OAuth2ClientCredentials, client_id="a", client_secret=SECRET),
    "StoredToken": valid(StoredToken, access_token="t", expires_at=NOW),
    "CallbackBasicAuth": valid(CallbackBasicAuth, username="u", password=SECRET),
    "CallbackBearerAuth": valid(CallbackBearerAuth, keys=KEY, issuer=ISSUER, audience="a"),
    "jwks_url": lambda url: CallbackBearerAuth(jwks_url=url, issuer=ISSUER, audience="a"),
    "verify": partial(CallbackBearerAuth, verify=bool),
    "CallbackTokenIssuer": valid(CallbackTokenIssuer, client_id="a", client_secret=LONG),
    "CallbackReceiver": valid(CallbackReceiver, on_callback=print, auth=CALLBACKS),
    "update_subscriber": valid(update_subscriber, broker=NatsBroker(), durable="incomes"),
    "NatsTokenStore": partial(NatsTokenStore, EMPTY),
    "UpdateEvent.from_json": UpdateEvent.from_json,
    "from_json": lambda kind=ApplicationRecord, text=b"1": from_json(kind, text),
    "Emulator": valid(Emulator, applications=1),
    "RemoteEmulator": valid(RemoteEmulator, url="http://127.0.0.1:80"),
    "Fault": valid(Fault, kind="drop"),
    "Faults.add": lambda fault: Faults().add(Fault("reset"), fault),
    "CallbackTarget": valid(CallbackTarget, url="http://127.0.0.1/"),
}  # fmt: skip


OF_THE_EMULATOR: Final = frozenset({"Emulator", "RemoteEmulator", "CallbackTarget"})
"""Calls whose errors do not all name the argument."""


Rows = list[Any] | tuple[dict[str, Any], ...]
"""Values of the argument that the message begins with; or rows of arguments, each a call."""


def given(*rows: dict[str, Any]) -> Rows:
    """Give these arguments, one row after the other."""
    return rows


def each(name: str, *values: Any) -> Rows:
    """Give one argument, in turn, each of these values."""
    return given(*({name: value} for value in values))


POSITIVE: Final = "must be a finite number above 0, not {}"
NOT_NEGATIVE: Final = "must be a finite number, 0 or more, not {}"
COUNT: Final = "must be a whole number, 1 or more, not {}"
WHOLE: Final = "must be a whole number, 0 or more, not {}"
FLAG: Final = "must be True or False, not {}"
NUMBERS: Final[dict[str, tuple[list[Any], str]]] = {
    POSITIVE: ([0, -1.0, True, "2", math.nan, math.inf], """
        IncomeClient.max_rate with_options.deadline Timeouts.connect Timeouts.read
        Timeouts.deadline poll.interval poll.lease StoredToken.lifetime CallbackReceiver.timeout
        CallbackReceiver.body_timeout CallbackReceiver.retry_after update_subscriber.timeout
        update_subscriber.ack_wait CallbackTarget.timeout
    """),
    NOT_NEGATIVE: ([-1, True, "60", math.nan, math.inf], """
        audit.settle poll.settle poll.lookback DownloadPolicy.minimum_rate
        CallbackReceiver.repeat_window Emulator.days Emulator.latency Fault.interval Fault.after
    """),
    COUNT: ([0, 1.5, 2.0, True, "4"], """
        IncomeClient.concurrency IncomeClient.max_response_bytes audit.concurrency
        list_applications.concurrency fetch_records.concurrency fetch_documents.concurrency
        download_all.concurrency poll.concurrency DownloadPolicy.max_bytes
        CallbackReceiver.concurrency CallbackReceiver.queue CallbackReceiver.max_body_bytes
        update_subscriber.attempts update_subscriber.concurrency
        Emulator.token_lifetime ServiceRules.max_span
        ServiceRules.url_lifetime ServiceRules.token_lifetime ServiceRules.file_bytes Fault.times
    """),
    WHOLE: ([-1, 2.0, 5.5, True, math.nan], """
        RetryPolicy.budget DownloadPolicy.max_redirects Emulator.port
        ServiceRules.visibility_delay ServiceRules.default_span Fault.skip Fault.keep
        make_record.applicants make_record.paystubs make_record.suspected
    """),
    FLAG: ([0, 1, "yes"], """
        IncomeClient.keep_error_bodies IncomeClient.telemetry download.overwrite poll.once
        poll.standby DownloadPolicy.require_https DownloadPolicy.allow_private_networks
        ServiceRules.url_signed_once ServiceRules.upper_closed CallbackTarget.renews_on_401
    """),
}  # fmt: skip
"""Numbers and flags: what is refused, and where."""

# fmt: off
REFUSED: Final[dict[str, dict[str, Rows]]] = {
    "IncomeClient": {
        "base_url is http; credentials go over https, or over http to loopback":
            ["http://income.example"],
        "base_url is neither https nor http": ["ftp://income.example"],
        "base_url must be an address in printable ASCII": ["income.example", "",
            "https://a.example:x", "https://a.example:+80", "https://a.example:1_0",
            "https://a.example/a b", "https://a.example/\r\nX: y",
            "https://a.example\\@evil.example", "https://exämple.com", "https://[::1",
            "https:/a.example/x", "https://x[::1]/x", "https://[::1]x:80/x"],
        "base_url holds a user name or a password; these go into auth":
            ["https://user:invented-password@income.example", "https://user@income.example"],
        "base_url must be a str, found {}": [None, b"https://income.example"],
        "base_url names no host": ["http://0x7f.0.0.0x1", "http://127.0.0.1.",
            "http://127.0.0.1.:8080", "https://10.0.0.1.", "http://[fe80::1%25lo]", "https://",
            "https://:443", "https://a..example", "https://-a.example",
            f"https://{'a' * 64}.example", f"https://{'a.' * 127}example", f"https://{SECRET}@"],
        "base_url has a port that is not a number from 1 to 65535": ["https://a.example:0",
            "https://a.example:65536"],
        "base_url holds a query or a fragment": ["https://a.example/?",
            f"https://a.example/?key={SECRET}", "https://a.example/#",
            f"https://a.example/#{SECRET}"],
        "base_url holds a path that is not plain": ["https://a.example/x/../y",
            "https://a.example/x//y", "https://a.example/%zz"],
        "auth_url is http; credentials go over https, or over http to loopback":
            ["http://token.example"],
        "auth_url holds a user name or a password; these go into auth":
            ["https://user:invented-password@token.example"],
        "auth_url must be an address in printable ASCII": ["", f"https://token.example:{SECRET}"],
        "proxy must be an address in printable ASCII": [SECRET, f"http://[{SECRET}",
            f"http://user:{SECRET}\r\n@proxy", f"http://127.0.0.1\\@user:{SECRET}@proxy", ""],
        "proxy is neither https nor http": [f"socks5://user:{SECRET}@proxy"],
        "proxy names no host": [f"http://user:{SECRET}@"],
        "proxy must be a str, found {}": [b"http://user:x@proxy", 7],
        "concurrency must be a whole number, 1 or more, not 0":
            given({"proxy": f"http://user:{SECRET}@proxy", "concurrency": 0}),
        (
            "auth must be BasicAuth, OAuth2ClientCredentials or a function that returns one of "
            "them, not {}"
        ): [None, BasicAuth, "user:invented-password", ("user", "invented-password")],
        "timeouts must be a Timeouts, not {}": [30, 0],
        "retry must be a RetryPolicy, not {}": [3],
        "user_agent must be a short text of printable ASCII": [7, "", f"{SECRET}\r\nX: y",
            "a" * 257],
        "trace_configs must be a sequence of aiohttp.TraceConfig": [[7]],
        "token_store is for OAuth2ClientCredentials": [object()],
        "token_store must be an object with load and save, not {}":
            given({"token_store": object(), "auth": OAUTH2}),
        f"base_url {PLAIN_HTTP}": given({"proxy": PROXY, "base_url": "http://127.0.0.1:8000"}),
        f"auth_url {PLAIN_HTTP}":
            given({"proxy": PROXY, "auth": OAUTH2, "auth_url": "http://127.0.0.1:8000"}),
        'service_timezone must be a tzinfo such as zoneinfo.ZoneInfo("America/New_York"), not {}':
            ["America/Chicago"],
        "session must be ClientSession, not {}": ["session"],
        "on_event is called, not awaited: a plain function": [*NO_PLAIN_FUNCTIONS],
    },
    "with_options": {
        "timeouts must be a Timeouts, not {}": [5, {"deadline": 2}],
        "retry must be a RetryPolicy, not {}": [3],
    },
    "Timeouts": {
    },
    "RetryPolicy": {
        "wait must be a plain function or None, not {}": [3, "3", wait_none, waits, retry_any],
        "stop must be a plain function or None, not {}": [3, wait_none, waits],
    },
    "get_application_page": {
        "limit must be a whole number from 1 to 1000, not {}": [0, 1001, True, "10", 25.0],
        "updated_after must not be later than updated_before":
            given({"updated_after": "2026-06-02", "updated_before": "2026-06-01"}),
        "updated_after must be a datetime, a date, or the ISO 8601 text of either, not {}": ["June",
            PAYLOAD],
        "application_reference_id must be a non-empty str, found an empty one": [""],
        "application_reference_id must be a non-empty str, found {}": [7, PAYLOAD],
        "application_reference_id holds a control character or half a character": ["a\nb"],
    },
    "get_application": {
        "application_id must be a non-empty str, found an empty one": [""],
        "application_id must not be a step in a path, such as ..": [".", ".."],
        "application_id must be a non-empty str, found {}": [7, None, b"1", PAYLOAD],
        "application_id holds a control character or half a character": ["a\nb", "a\x00b", "\x7f",
            "\x85", "\ud800"],
        "application_id must not be longer than 512 characters": ["a" * 513],
    },
    "get_documents": {
        "application_id must be a non-empty str, found {}": [7, PAYLOAD],
    },
    "find_application": {
        "application_reference_id must be a non-empty str, found an empty one": [""],
        "application_reference_id must be a str that is not empty, not {}": [None],
    },
    "get_json": {
        "path must be a str, not {}": [None, 7, b"/v1/x", Path("/v1/x")],
        "path must begin with a single slash: it is below base_url, not an address": ["", "v1/x",
            "//evil.example/x", "///x", "https://evil.example/x", "http:/x", "\\\\evil",
            "@evil.example/x", ":8080/x", "?x=1", "#x", "..", " /v1/x",
            f"https://user:{SECRET}@evil.example/x"],
        "path must be plain and percent-encoded; a query goes into params": ["/v1//x", "/v1/x//",
            "/\\evil.example", "/v1/x?a=b", "/v1/x#part", "/v1/x y", "/v1/x\r\nHost: evil.example",
            "/v1/x\x00", "/v1/x\x7f", "/v1/\ud800", "/v1/\udc00x", "/v1/é", "/v1/%", "/v1/%2",
            "/v1/%zz", "/v1/x\n", "/v1/\\..\\x", "/v1/<x>", "/v1/[x]"],
        "path must not hold a step such as ..": ["/..", "/.", "/v1/../x", "/v1/./x", "/v1/..",
            "/v1/../", "/v1/%2e%2e/x", "/v1/.%2E", "/v1/%2e/x", "/v1/..%2fx", "/v1/%2f..%2f",
            "/v1/x%2f..", "/v1/..%5cx", "/v1/%5c..", "/v1/..;a=b/x", "/v1/..%3bx", "/v1/..%3fx",
            "/v1/..%23x", "/v1/%252e%252e/x", "/v1/%25252e%25252e", "/v1/..%252fx"],
        "path holds a control character": ["/v1/%00", "/v1/%0d%0aHost:%20evil", "/v1/%1bx",
            "/v1/%7f", "/v1/%c2%85", "/v1/%2500"],
        "path holds an escape that is not UTF-8": ["/v1/%ff", "/v1/%ed%a0%80",
            "/v1/%c0%ae%c0%ae/x"],
        "params must be a mapping of names to values, not {}": ["a=b", [("a", "b")], 7, b"a=b"],
        "params must have names that are a str and not empty": [{"": "x"}, {7: "x"}, {None: "x"}],
        "params must have values that are a str, an int, a bool, or lists of these": [{"a": None},
            {"a": 1.5}, {"a": b"x"}, {"a": bytearray(b"x")}, {"a": Secret(SECRET)},
            {"a": {"b": "c"}}, {"a": ["b", None]}, {"a": [["b"]]}, {"a": {"b"}}],
        "params holds a control character or half a character": [{"a": "b\r\n"}, {"a\x00": "b"},
            {"a": "\ud800"}, {"\udfff": "b"}, {"a": ["b", "\x85"]}],
    },
    "audit": {
        "held must be a mapping of ids to times, or an iterable of such pairs, not {}": [None, 7,
            "app-1", b"app-1"],
        "margin must be None or a finite number, 1 or more, not {}": [-1, 0, 0.9, math.inf, "60",
            True],
        "updated_after must not be later than updated_before":
            given({"updated_after": "2026-06-02", "updated_before": "2026-06-01"}),
    },
    "list_applications": {
        "limit must be a whole number from 2 to 1000, not {}": [0, 1, 1001, True, "10", None, 10.0],
        "updated_after must not be later than updated_before":
            given({"updated_after": "2026-06-02", "updated_before": "2026-06-01"}),
        "updated_after must be a datetime, a date, or the ISO 8601 text of either, not {}":
            ["yesterday", PAYLOAD, "2026-02-30", "2026-06-01T25:00:00", "2024-01-31T24:00",
            "2024-W05-3", "20240131", "2024-01-31T10:00:00.1234567", "2024-01-31T10:00:00+25:00",
            "\uff12\uff10\uff12\uff14-01-31", True, ""],
        "updated_before must be a datetime, a date, or the ISO 8601 text of either, not {}":
            [1_750_000_000, b"2026-06-01", "0000-01-01"],
        "updated_before must be within the years 1 to 9999": ["9999-12-31T23:59:59-01:00"],
        "on_saturated must be 'raise' or 'report', not {}": ["ignore"],
    },
    "fetch_records": {
        "applications must be an iterable of ids, summaries or applications": ["app-1", b"app-1",
            None, 7, SECRET],
        "on_error must be 'raise' or 'yield', not {}": ["ignore"],
    },
    "fetch_documents": {
        "applications must be an iterable of ids, summaries or applications": ["app-1", SECRET],
        "on_error must be 'raise' or 'yield', not {}": ["ignore"],
    },
    "download": {
        "document must be one Document; download_all takes many, not {}": [f"https://x/{SECRET}"],
        "file must be 0: a document has one address, and so one file": [1, -1, True, "0"],
        "on_progress is called, not awaited: a plain function": [*NO_PLAIN_FUNCTIONS],
        "a destination's path must be a str or an os.PathLike of str": each("destination", "",
            "a\0b"),
        (
            "a destination must be a path, or an object with write() for bytes; for an object"
            " store, see `income-client guide files`"
        ): each("destination", b"bytes", 7, object, ["a"]),
        (
            "the destination is a URL, not a path; for an object store, see"
            " `income-client guide files`"
        ): each("destination", "s3://bucket/x", "memory:///", "file:///tmp/x/"),
        "the destination is a text file; a document's file is bytes":
            each("destination", io.StringIO()),
    },
    "download_all": {
        (
            "documents are Document, ApplicationDocuments or ApplicationRecord, or an iterable of"
            " these"
        ): [None, SECRET],
        (
            "directory must be the path of a folder; for an object store, see"
            " `income-client guide files`"
        ): [None, open],
        "a destination's path must be a str or an os.PathLike of str": each("directory", ""),
        "on_error must be 'raise' or 'yield', not {}": ["ignore"],
        "a name template must contain {document_id} or {file_reference_id}":
            each("names", "no fields", "", "plain", "{application_id}.{ext}", ".{ext}"),
        (
            "a component of a name template is empty, or its own text is not safe: no '..', no "
            'dot, dash, tilde or space in front, no dot or space behind, none of \\:*?"<>|'
        ): each("names", "{document_id}/../x", "/{document_id}", "{document_id}/",
            "a//{document_id}", "../{document_id}", "a/../{document_id}", "./{document_id}",
            ".{document_id}", "{document_id}..", "a..b/{document_id}", "-{document_id}",
            "~/{document_id}", " {document_id}", "{document_id} ", "a\\{document_id}",
            "C:{document_id}", "{document_id}\n", "{document_id}\0", "\u202e{document_id}",
            "e\u0301/{document_id}"),
        "a name template has a brace without its partner": each("names", "{document_id",
            "document_id}"),
        f"a name template has no field {{}}{FIELDS}": each("names", "{}", "{0}", "{unknown}",
            "{document_id.__class__}", "{document_id[0]}"),
        f"a name template has plain fields only{FIELDS}": each("names", "{document_id!r}",
            "{document_id:>10}", "{document_id:{file}}"),
        "in a name template, {ext} must be at the end, behind a dot":
            each("names", "{document_id}{ext}", "{document_id}.{ext}.gz",
            "{ext}/{document_id}.{ext}", "{ext}"),
        "a name template has at most 8 components": each("names", "1/2/3/4/5/6/7/8/{document_id}"),
        "a component of a name template can become too long":
            each("names", "{document_id}{document_id}{document_id}", "x" * 250 + "/{document_id}"),
        "a name template must be a str": each("names", b"{document_id}", None),
    },
    "poll": {
        "checkpoints must be an object with the methods load, save, dead_letters, not {}":
            ["store.db", SECRET],
        "name must be a str that is not empty": [""],
        "start must be a time, its ISO 8601 text, or a batch's checkpoint, not {}": ["yesterday",
            17],
    },
    "BasicAuth": {
        f"username {NO_CREDENTIAL}": ["a:b", f"u:{SECRET}", f"u\udcff{SECRET}"],
        "username is empty or not a str": ["", BYTES],
        "username must be a str": [Secret(SECRET)],
        "password is empty or not a str": ["", None, BYTES],
        f"password {NO_CREDENTIAL}": [f"{SECRET}\n", NO_TEXT],
    },
    "OAuth2ClientCredentials": {
        "client_secret is empty or not a str": ["", BYTES],
        "client_id is empty or not a str": ["", BYTES],
        "client_id must be a str": [Secret(SECRET)],
        f"client_id {NO_CREDENTIAL}": [f"u:{SECRET}", f"u\udcff{SECRET}"],
        f"client_secret {NO_CREDENTIAL}": [f"{SECRET}\n", NO_TEXT],
    },
    "Secret": {
        "the text of a Secret must be a str": each("text", BYTES),
    },
    "StoredToken": {
        "access_token must be a token that a header can carry": ["", "a\r\nb", 7],
        "expires_at must be a datetime with a zone": [NOW.replace(tzinfo=None), "2026"],
    },
    "DownloadPolicy": {
        "allowed_hosts must be a list of one host or more, not {}": ["a.example", b"a.example", (),
            None, 7],
        "allowed_hosts: an entry is not a str": [["a.example", 7], [7], [None], [b"example.com"]],
        "allowed_hosts: the entry '*' allows every host; name them": [["a.example", "*"]],
        "allowed_hosts: the entry is empty": [[""]],
        "allowed_hosts: the entry {} allows every host; name them": [["*"], ["*:443"]],
        "allowed_hosts: the entry {} needs a domain of two labels or more behind *.": [["*.com"],
            ["*.10.0.0.1"]],
        "allowed_hosts: the entry {} is not a host name and not an IP address": [["*."],
            ["*.*.example.com"], ["a.*.example.com"], ["*a.example.com"], ["example.com."],
            ["a..example.com"], [".example.com"], ["-a.example.com"], ["127.1"], ["0x7f.0.0.1"],
            ["2130706433"], ["010.0.0.1"], ["[1.2.3.4]"], ["a" * 64 + ".example.com"]],
        "allowed_hosts: the entry is not a host name and not an IP address": [["[fe80::1%25lo]"],
            ["%61.example.com"], ["a." * 127 + "example.com"]],
        "allowed_hosts: the entry {} is not a host; an IPv6 address must be in brackets": [["::1"],
            ["[::1"], ["a:b:c"]],
        "allowed_hosts: the entry {} has a port that is neither a number from 1 to 65535 nor *":
            [["example.com:"], ["example.com:0"], ["example.com:65536"], ["example.com:080"],
            ["example.com:http"]],
        "allowed_hosts: the entry has a port that is neither a number from 1 to 65535 nor *":
            [["example.com:+80"]],
        "allowed_hosts: the entry is an address; name only a host and a port":
            [["https://example.com"], ["example.com/path"]],
        "allowed_hosts: the entry holds a user name or a password": [["user:password@example.com"]],
        "allowed_hosts: the entry is not plain ASCII": [["exämple.com"], ["example .com"],
            ["example.com\n"]],
        "ssl must be SSLContext, not {}": [True, False, "context"],
    },
    "SQLiteCheckpointStore": {
        "path must be that of a file, not a URI; without a file, use MemoryCheckpointStore": ["",
            ":memory:", "file:store.db", "FILE::memory:", Path(":memory:")],
        "path must be a str or an os.PathLike of str": ["a\0b", b"store.db", None, 5],
    },
    "ParquetTables": {
        "folder must be a path, not {}": [None, 7, b"all"],
    },
    "to_arrow": {
        "records must be an iterable, such as a list, not {}": [None,
            make_record(application_id="app-1")],
        "gather records that are awaited first: [record async for record in ...]":
            each("records", yields()),
    },
    "CallbackBasicAuth": {
        "username is empty or not a str": [""],
        f"username {NO_CREDENTIAL}": ["u:v"],
        "password is empty or not a str": ["", None, Secret("")],
        f"password {NO_CREDENTIAL}": ["p\n"],
        "also must be an iterable of BasicAuth": [7],
        "also holds something that is not a BasicAuth": [[("u", SECRET)]],
    },
    "CallbackBearerAuth": {
        "keys: number 2 is not a public key in PEM; a shared secret is given as a Secret":
            given({"keys": [Secret(LONG), LONG], "algorithms": ["HS256"]}),
        "give exactly one of keys, jwks_url and verify": given({"keys": None}, {"jwks_url": JWKS}),
        "issuer is the text that tokens carry as iss; it is required": [None, "", 5],
        (
            "audience, or claims such as {'client_id': ...}, is required: a token that the same "
            "issuer has made for another API must not pass"
        ): [None],
        "audience must be a text that tokens carry as aud, or several":
            given(*({"audience": audience, "claims": claims} for claims in (None, {"scope": "c"})
                for audience in NO_AUDIENCES)),
        "claims must be names with the values that tokens must carry": [{}, {"": "x"}, "client_id",
            {"client_id": "x", "": "y"}],
        "claims: a value must be a text, a whole number or a bool": [{"client_id": ""},
            {"client_id": 1.5}],
        "claims: iss is checked by an argument of its own": [{"iss": "x"}],
        (
            "algorithms must be a list of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384,"
            " ES512, EdDSA, Ed25519, HS256, HS384, HS512"
        ): [[], "ES256", ["none"], ["ES256K"]],
        (
            "algorithms: HS256 and its like, whose key is a secret, never go together with the "
            "others, whose key is public"
        ): [["ES256", "HS256"]],
        (
            "keys: number 1 cannot be used with these algorithms: it is of another kind, too "
            "short (RSA: 2048 bits), or meant for something else"
        ): each("algorithms", ["RS256"]),
        "jwks_url: anyone can fetch that key set; a secret for HS256 must be given as keys":
            given({"keys": None, "jwks_url": JWKS, "algorithms": ["HS256"]}),
        "leeway must be a number of seconds from 0 to 60": [-1, 60.5, math.nan, 10**400, True],
    },
    "jwks_url": {
        "jwks_url must be https, or http on this machine":
            each("url", "http://id.example.test/keys"),
        "jwks_url is neither https nor http": each("url", "ftp://127.0.0.1/keys"),
        "jwks_url names no host": each("url", "http://0x7f.1/keys", "https:///keys"),
        "jwks_url holds a user name, a password or a fragment":
            each("url", f"https://user:{SECRET}@id.example.test/keys",
            f"https://id.example.test/keys#{SECRET}"),
        "jwks_url must be an address in printable ASCII": each("url", "https://a.example/k y"),
        "jwks_url must be a str, found {}": each("url", 5),
    },
    "verify": {
        "verify decides alone; no other argument goes with it": given({"issuer": ISSUER},
            {"audience": "a"}, {"claims": {"a": 1}}, {"leeway": 5.0}, {"algorithms": ["ES256"]}),
        "give exactly one of keys, jwks_url and verify": each("keys", KEY),
    },
    "CallbackClientCertificate": {
        "client certificates: name a subject or a san, or say any_from_ca=True, not both": given({},
            {"any_from_ca": True, "san": "a.example"}, {"san": ()}),
        "subject must be a str, or several, none of them empty": ["", 7, [b"CN=callbacks"]],
        (
            "subject must be a text as RFC 4514 has it, such as 'CN=callbacks,O=Income', without "
            "spaces around commas; this prints it: openssl x509 -noout -subject -nameopt RFC2253 "
            "-in FILE"
        ): ["callbacks", "CN=callbacks, O=Income"],
        (
            "san: '*.service.example' must be a DNS name, URI, IP or e-mail address; wildcards "
            "mean too many"
        ): ["*.service.example"],
        "san: 'two words' must be a DNS name, URI, IP or e-mail address; wildcards mean too many":
            ["two words"],
        "san must be a str, or several, none of them empty": [["a.example", ""], 7],
        "proxy_header must be the name of a header, such as 'Client-Cert'":
            given({"san": "a.example", "proxy_header": "Client Cert"},
            {"san": "a.example", "proxy_header": ""}),
        "proxy_header: the proxy does not verify the certificates in that header":
            given({"san": "a.example", "proxy_header": "X-Amzn-Mtls-Clientcert"}),
        "verified_header goes with a proxy_header":
            given({"san": "a.example", "verified_header": ("X-Verify", "SUCCESS")}),
        "verified_header must be a name and a value, such as ('X-SSL-Client-Verify', 'SUCCESS')":
            given({"san": "a.example", "proxy_header": "Client-Cert", "verified_header": "SUCCESS"},
            {"san": "a", "proxy_header": "Client-Cert", "verified_header": ("X-Verify", "")}),
    },
    "CallbackTokenIssuer": {
        "lifetime must be a number of seconds from 60 to 86400": [59, 86_401, 0, True, "60",
            math.nan, math.inf],
        (
            "client_secret has fewer than 32 characters, and tokens are signed with it; "
            "secrets.token_urlsafe(32) makes a good one"
        ): given({"client_secret": f"{SECRET}-short"},
            {"also": (OAuth2ClientCredentials("old", f"{SECRET}-short"),)}),
        "client_id is empty or not a str": [""],
        f"client_id {NO_CREDENTIAL}": ["a:b"],
        "client_secret is empty or not a str": ["", None],
        "also must be an iterable of OAuth2ClientCredentials": [5],
        "also holds something that is not an OAuth2ClientCredentials": ["x", [Secret(LONG)]],
    },
    "CallbackSourceNetworks": {
        "source networks: none are given, so nothing could pass": each("networks", []),
        "source networks are several, such as ['198.51.100.7', '2001:db8::/32']":
            each("networks", "198.51.100.7", 7),
        f"source networks: {NO_NETWORK}": each("networks", [""], [7], [None], ["198.51.100.7/24"],
            ["198.51.100.0/33"], ["callbacks.example"], ["unix:"]),
        "source networks: {} means every address": each("networks", ["0.0.0.0/0"], ["::/0"],
            ["::ffff:0:0/96"]),
    },
    "TrustedProxies": {
        "trusted_proxies are several, such as ['198.51.100.7', '2001:db8::/32']":
            each("proxies", "10.0.0.1", 7),
        "trusted_proxies: {} means every address": each("proxies", ["0.0.0.0/0"]),
        f"trusted_proxies: {NO_NETWORK}": each("proxies", ["::ffff:0:0/0"], ["proxy"]),
    },
    "CallbackReceiver": {
        "auth is empty: callbacks could come from anyone": [[]],
        (
            "auth: an address does not identify the sender; add another method to the source "
            "networks, or set is_enough=True"
        ): [CallbackSourceNetworks(["198.51.100.7"])],
        "auth holds more than one CallbackBasicAuth": [[CALLBACKS, CALLBACKS]],
        f"{AUTHS}, not str": each("auth", ["service:password"]),
        AUTHS + ", not {}": each("auth", None, BASIC, CallbackTokenIssuer("service", LONG), OAUTH2),
        "auth: proxy_header needs trusted_proxies, and none are given":
            [CallbackClientCertificate(san="a.b", proxy_header="Client-Cert")],
        "on_callback must be a function that does not yield": [7, yields],
        "on_callback must take one argument, the Callback": [lambda: None,
            lambda _callback, _more: None],
        "on_repeat must be 'run' or 'skip', not {}": ["ignore"],
        "trusted_proxies are several, such as ['198.51.100.7', '2001:db8::/32']": ["10.0.0.1"],
    },
    "update_subscriber": {
        "broker must be NatsBroker, not {}": each("broker", None, "nats://127.0.0.1"),
        "durable must be str, not {}": each("durable", 1),
    },
    "NatsTokenStore": {
        "key must be letters, digits, - and _": ["", "a b", "a.b", "ü", ">"],
    },
    "UpdateEvent.from_json": {
        "text must be bytes or a str, not {}": [None],
    },
    "from_json": {
        "text is bytes or a str": [None, PAYLOAD],
        "record_class must be a class of records": each("kind", int, dict, BasicAuth, Window,
            list[int], None, []),
    },
    "to_json": {
        "NoneType is not a record class of the service": each("record", None),
        "dict is not a record class of the service": each("record", PAYLOAD | {"pay": 1.5},
            {1: "x"}, {"x": make_record()}, {"x": [1.5]}),
        "str is not a record class of the service": each("record", "text"),
        "list is not a record class of the service": each("record", [make_record()]),
        "object is not a record class of the service": each("record", object()),
        "type is not a record class of the service": each("record", ApplicationRecord),
    },
    "Emulator": {
        f"applications {WHOLE}": [-5, True],
        "applications is how many there are, or the second of each one's last update": ["many",
            [1.5]],
        "pattern is one of uniform, bursts, growth, diurnal, pareto, bmodel, seconds": ["sideways"],
        "start must be a datetime without zone, not {}": ["2026-06-30",
            datetime(2026, 6, 30, tzinfo=UTC)],
        "the emulator listens on loopback only": each("host", "0.0.0.0", "example.com", "", "::"),
        "host must be an IP address, such as 0.0.0.0":
            given(*({"host": host, "allow_hosts": ["emulator"]}
                for host in ("example.com", "", "0.0.0.0:1"))),
        "allow_hosts must be several hosts, such as ['emulator'], not {}": ["emulator", 7],
        "allow_hosts are host names or IP addresses, each without a port": [["*"], ["emulator:80"],
            [""], [None], ["http://emulator"], ["*.example.com"]],
        "control_token must be Secret, not of type str": ["a-long-token"],
        "control_token must be 8 or more characters, no blanks":
            [*map(Secret, ("short", "with a blank", "with-\u00fcmlaut", ""))],
        "Emulator has no option oder; did you mean order?": each("oder", "random"),
        "callbacks must be a CallbackTarget or None, not {}": [URL],
        "rules must be ServiceRules, not {}": [{"order": "shuffled"}],
    },
    "RemoteEmulator": {
        "url must be an http or https address of an emulator": ["ftp://127.0.0.1", "127.0.0.1:80",
            "http://", "http://user@127.0.0.1", f"http://u:{SECRET}@127.0.0.1"],
        "token must be Secret or str, not {}": [b"a-long-token"],
        "token must be 8 or more characters, no blanks": ["short"],
    },
    "ServiceRules": {
        "Order must be one of ascending, descending, shuffled, random": each("order", "sideways"),
    },
    "Fault": {
        (
            "FaultKind must be one of status, reset, drop, cut, stall, trickle, garbage, "
            "redirect, body"
        ): each("kind", "slow"),
        "path must be of type str, not {}": [None],
        "status must be a status, 100 or more, not {}": [99],
        "status must be a whole number, not {}": ["503"],
        "there is no call get_document; did you mean get_documents?": each("call", "get_document"),
        "rate must be a share from 0 to 1, not {}": [1.5, "20%"],
        "seed must be a whole number, not {}": given({"rate": 0.5, "seed": None}),
        f"retry_after {WHOLE}": given({"kind": "status", "retry_after": -5}),
        "retry_after goes with status, redirect, body, not with drop": [5],
    },
    "Faults.add": {
        "a fault must be a script or a Fault, not {}": each("fault", FaultKind.RESET, None),
    },
    "CallbackTarget": {
        f"url must be an {HERE}": ["http://example.com/callbacks", "http://127.0.0.1.example.com/",
            "http://user@127.0.0.1/", f"http://user:{SECRET}@127.0.0.1/", "http://127.0.0.1/#part",
            "http://127.0.0.1\\@example.com/", "http://127.0.0.1/a b", "http://127.0.0.1:/",
            "http://[::ffff:127.0.0.1]/", "ftp://127.0.0.1/", "127.0.0.1:9000", "", None],
        "url must have a port up to 65535": ["http://127.0.0.1:70000/"],
        f"token_url must be an {HERE}":
            given(*({"auth": OAUTH2, "token_url": url} for url in ("http://10.0.0.1/", ""))),
        "auth must be BasicAuth or OAuth2ClientCredentials, not {}": ["secret"],
        "token_url is needed where auth is OAuth2ClientCredentials": each("auth", OAUTH2),
        "token_url is given, and auth is not OAuth2ClientCredentials": ["http://127.0.0.1/"],
        "ssl is given, and no address is https": [ssl.create_default_context()],
        "pauses must be several numbers of seconds, not {}": [3],
        "each of the pauses must be a finite number, 0 or more, not -1": each("pauses", [1, -1]),
    },
    "make_document": {
        "make_document has no option extracted_dat; did you mean extracted_data?":
            each("extracted_dat", 1),
    },
    "make_record": {
        "make_record has no option suspeced; did you mean suspected?": each("suspeced", 1),
        "suspected must be from 0 to 1, the number of pay slips": [2],
    },
}
# fmt: on


def _messages() -> Iterator[Any]:
    for message, (values, places) in NUMBERS.items():
        for place in places.split():
            call, _, name = place.partition(".")
            yield pytest.param(call, f"{name} {message}", each(name, *values), id=place)
    for call, messages in REFUSED.items():
        for message, rows in messages.items():
            name = message.split()[0].rstrip(":,")
            calls = each(name, *rows) if isinstance(rows, list) else rows
            yield pytest.param(call, message, calls, id=f"{call}-{message[:50]}")


def _shown(arguments: dict[str, Any]) -> Iterator[str]:
    for value in arguments.values():
        kind = type(value).__name__
        yield from (str(value), repr(value), f"of type {kind}", kind)
        if isinstance(value, list):
            yield from map(repr, value)
    yield "{}"  # which the words of a template hold as they are


@pytest.mark.parametrize(("call", "message", "rows"), list(_messages()))
async def test_invalid_arguments_are_refused(
    call: str, message: str, rows: tuple[dict[str, Any], ...]
) -> None:
    """At once and in these words; they show a number or a name, and of others the type."""
    for arguments in rows:
        with pytest.raises(ConfigurationError) as caught:  # noqa: PT012 - a call may be awaited
            if inspect.isawaitable(left := CALLS[call](**arguments)):
                await left
        error = caught.value
        assert error.message in {message.replace("{}", found) for found in _shown(arguments)}
        assert (error.argument or "") in f"{error.message} {[*arguments]}"
        first = error.message.split()[0].rstrip(":")
        assert error.argument == first or first not in arguments or call in OF_THE_EMULATOR
