"""Every argument that is refused at once, with an error that names it.

A call is given what is valid but for what its row changes. Nothing is sent.
"""

import inspect
import io
import math
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final

import pytest
from faststream.nats import NatsBroker
from tenacity import retry_any, wait_none

from income_client import (
    ApplicationRecord,
    BasicAuth,
    ConfigurationError,
    DownloadPolicy,
    IncomeClient,
    MemoryCheckpointStore,
    OAuth2ClientCredentials,
    RetryPolicy,
    Secret,
    SQLiteCheckpointStore,
    StoredToken,
    Timeouts,
    from_json,
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
from income_client.exporting import ParquetTables, to_arrow
from income_client.receivers import (
    CallbackBasicAuth,
    CallbackBearerAuth,
    CallbackClientCertificate,
    CallbackReceiver,
    CallbackSourceNetworks,
    CallbackTokenIssuer,
)
from income_client.receivers.networks import TrustedProxies
from income_client.records import Window
from income_client.testing import make_document, make_record
from tests.support.canaries import SECRET
from tests.support.identities import public_jwk

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
DEEP: Final[list[Any]] = reduce(lambda inner, _: [inner], range(200), [])
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


NO_AUDIENCES: Final[list[Any]] = [[], "", b"x", [b"x"], [""], ["a", ""], [5], {}]


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
    "poll": valid(CLIENT.poll, store=MemoryCheckpointStore()),
    "BasicAuth": valid(BasicAuth, username="u", password=SECRET),
    "OAuth2ClientCredentials": valid(OAuth2ClientCredentials, client_id="a", client_secret=SECRET),
    "StoredToken": valid(StoredToken, access_token="t", expires_at=NOW),
    "CallbackBasicAuth": valid(CallbackBasicAuth, username="u", password=SECRET),
    "CallbackBearerAuth": valid(CallbackBearerAuth, keys=KEY, issuer=ISSUER, audience="a"),
    "jwks_url": valid(CallbackBearerAuth, issuer=ISSUER, audience="a"),
    "verify": partial(CallbackBearerAuth, verify=bool),
    "proxy certificate": partial(CallbackClientCertificate, san="a.example"),
    "verified certificate":
        partial(CallbackClientCertificate, san="a.example", proxy_header="Client-Cert"),
    "CallbackTokenIssuer": valid(CallbackTokenIssuer, client_id="a", client_secret=LONG),
    "CallbackReceiver": valid(CallbackReceiver, on_callback=print, auth=CALLBACKS),
    "update_subscriber": valid(update_subscriber, broker=NatsBroker(), durable="incomes"),
    "NatsTokenStore": partial(NatsTokenStore, EMPTY),
    "UpdateEvent.from_json": UpdateEvent.from_json,
    "from_json": valid(from_json, record_class=ApplicationRecord, text=b"1"),
    "Emulator": valid(Emulator, applications=1),
    "RemoteEmulator": valid(RemoteEmulator, url="http://127.0.0.1:80"),
    "Fault": valid(Fault, kind="drop"),
    "Faults.add": lambda fault: Faults().add(Fault("reset"), fault),
    "CallbackTarget": valid(CallbackTarget, url="http://127.0.0.1/"),
}  # fmt: skip


NAMED_IN_WORDS: Final = frozenset({
    "Emulator", "RemoteEmulator", "ServiceRules", "Fault", "Faults.add", "CallbackTarget",
    "make_document", "make_record", "CallbackSourceNetworks", "TrustedProxies", "to_json",
})  # fmt: skip
"""Calls whose errors name the argument in their message only."""

NUMBERS: Final[tuple[tuple[list[Any], str], ...]] = (
    ([0, -1.0, True, "2", math.nan, math.inf], """
        IncomeClient.max_rate with_options.deadline Timeouts.connect Timeouts.read
        Timeouts.deadline poll.interval StoredToken.lifetime CallbackReceiver.timeout
        CallbackReceiver.body_timeout CallbackReceiver.retry_after update_subscriber.timeout
        update_subscriber.ack_wait CallbackTarget.timeout
    """),
    ([-1, True, "60", math.nan, math.inf], """
        audit.settle poll.settle poll.lookback DownloadPolicy.minimum_rate
        CallbackReceiver.repeat_window Emulator.days Emulator.latency Fault.interval Fault.after
    """),
    ([0, 1.5, 2.0, True, "4"], """
        IncomeClient.concurrency audit.concurrency
        list_applications.concurrency fetch_records.concurrency fetch_documents.concurrency
        download_all.concurrency poll.concurrency DownloadPolicy.max_bytes
        CallbackReceiver.concurrency CallbackReceiver.queue CallbackReceiver.max_body_bytes
        update_subscriber.attempts update_subscriber.concurrency
        Emulator.token_lifetime ServiceRules.max_span
        ServiceRules.url_lifetime ServiceRules.token_lifetime ServiceRules.file_bytes Fault.times
    """),
    ([-1, 2.0, 5.5, True, math.nan], """
        RetryPolicy.budget DownloadPolicy.max_redirects Emulator.port
        ServiceRules.visibility_delay ServiceRules.default_span Fault.skip Fault.keep
        make_record.applicants make_record.paystubs make_record.suspected
    """),
    ([0, 1, "yes"], """
        IncomeClient.keep_error_bodies download.overwrite poll.once DownloadPolicy.require_https
        DownloadPolicy.allow_private_networks
        ServiceRules.url_signed_once ServiceRules.upper_closed CallbackTarget.renews_on_401
    """),
)  # fmt: skip
"""Values that are refused wherever a call takes a number or a flag of a kind, and these places."""

# fmt: off
REFUSED: Final[dict[str, dict[str, list[Any]]]] = {
    "IncomeClient": {
        "base_url": ["http://income.example", "ftp://income.example", "income.example", "",
            "https://a.example:x", "https://a.example:+80", "https://a.example:1_0",
            "https://a.example/a b", "https://a.example/\r\nX: y",
            "https://a.example\\@evil.example", "https://exämple.com", "https://[::1",
            "https:/a.example/x", "https://x[::1]/x", "https://[::1]x:80/x",
            "https://user:invented-password@income.example", "https://user@income.example", None,
            b"https://income.example", "http://0x7f.0.0.0x1", "http://127.0.0.1.",
            "http://127.0.0.1.:8080", "https://10.0.0.1.", "http://[fe80::1%25lo]", "https://",
            "https://:443", "https://a..example", "https://-a.example",
            f"https://{'a' * 64}.example", f"https://{'a.' * 127}example", f"https://{SECRET}@",
            "https://a.example:0", "https://a.example:65536", "https://a.example/?",
            f"https://a.example/?key={SECRET}", "https://a.example/#",
            f"https://a.example/#{SECRET}", "https://a.example/x/../y", "https://a.example/x//y",
            "https://a.example/%zz"],
        "auth_url": ["http://token.example", "https://user:invented-password@token.example", "",
            f"https://token.example:{SECRET}"],
        "proxy": [SECRET, f"http://[{SECRET}", f"http://user:{SECRET}\r\n@proxy",
            f"http://127.0.0.1\\@user:{SECRET}@proxy", "", f"socks5://user:{SECRET}@proxy",
            f"http://user:{SECRET}@", b"http://user:x@proxy", 7],
        "auth": [None, BasicAuth, "user:invented-password", ("user", "invented-password")],
        "timeouts": [30, 0],
        "retry": [3],
        "token_store": [object()],
        "service_timezone": ["America/Chicago"],
        "session": ["session"],
        "on_event": [*NO_PLAIN_FUNCTIONS],
    },
    "with_options": {
        "timeouts": [5, {"deadline": 2}],
        "retry": [3],
    },
    "RetryPolicy": {
        "wait": [3, "3", wait_none, waits, retry_any],
        "stop": [3, wait_none, waits],
    },
    "get_application_page": {
        "limit": [0, 1001, True, "10", 25.0],
        "updated_after": ["June", PAYLOAD],
        "application_reference_id": ["", 7, PAYLOAD, "a\nb"],
    },
    "get_application": {
        "application_id": ["", ".", "..", 7, None, b"1", PAYLOAD, "a\nb", "a\x00b", "\x7f",
            "\x85", "\ud800", "a" * 513],
    },
    "get_documents": {
        "application_id": [7, PAYLOAD],
    },
    "find_application": {
        "reference": ["", None],
    },
    "get_json": {
        "path": [None, 7, b"/v1/x", Path("/v1/x"), "", "v1/x", "//evil.example/x", "///x",
            "https://evil.example/x", "http:/x", "\\\\evil", "@evil.example/x", ":8080/x",
            "?x=1", "#x", "..", " /v1/x", f"https://user:{SECRET}@evil.example/x", "/v1//x",
            "/v1/x//", "/\\evil.example", "/v1/x?a=b", "/v1/x#part", "/v1/x y",
            "/v1/x\r\nHost: evil.example", "/v1/x\x00", "/v1/x\x7f", "/v1/\ud800", "/v1/\udc00x",
            "/v1/é", "/v1/%", "/v1/%2", "/v1/%zz", "/v1/x\n", "/v1/\\..\\x", "/v1/<x>",
            "/v1/[x]", "/..", "/.", "/v1/../x", "/v1/./x", "/v1/..", "/v1/../", "/v1/%2e%2e/x",
            "/v1/.%2E", "/v1/%2e/x", "/v1/..%2fx", "/v1/%2f..%2f", "/v1/x%2f..", "/v1/..%5cx",
            "/v1/%5c..", "/v1/..;a=b/x", "/v1/..%3bx", "/v1/..%3fx", "/v1/..%23x",
            "/v1/%252e%252e/x", "/v1/%25252e%25252e", "/v1/..%252fx", "/v1/%00",
            "/v1/%0d%0aHost:%20evil", "/v1/%1bx", "/v1/%7f", "/v1/%c2%85", "/v1/%2500",
            "/v1/%ff", "/v1/%ed%a0%80", "/v1/%c0%ae%c0%ae/x"],
        "params": ["a=b", [("a", "b")], 7, b"a=b", {"": "x"}, {7: "x"}, {None: "x"}, {"a": None},
            {"a": 1.5}, {"a": b"x"}, {"a": bytearray(b"x")}, {"a": Secret(SECRET)},
            {"a": {"b": "c"}}, {"a": ["b", None]}, {"a": [["b"]]}, {"a": {"b"}}, {"a": "b\r\n"},
            {"a\x00": "b"}, {"a": "\ud800"}, {"\udfff": "b"}, {"a": ["b", "\x85"]}],
    },
    "audit": {
        "held": [None, 7, "app-1", b"app-1"],
        "margin": [-1, 0, 0.9, math.inf, "60", True],
    },
    "list_applications": {
        "limit": [0, 1, 1001, True, "10", None, 10.0],
        "updated_after": ["yesterday", PAYLOAD, "2026-02-30", "2026-06-01T25:00:00",
            "2024-01-31T24:00", "2024-W05-3", "20240131", "2024-01-31T10:00:00.1234567",
            "2024-01-31T10:00:00+25:00", "\uff12\uff10\uff12\uff14-01-31", True, ""],
        "updated_before": [1_750_000_000, b"2026-06-01", "0000-01-01",
            "9999-12-31T23:59:59-01:00"],
        "on_saturated": ["ignore"],
    },
    "fetch_records": {
        "applications": ["app-1", b"app-1", None, 7, SECRET],
        "on_error": ["ignore"],
    },
    "fetch_documents": {
        "applications": ["app-1", SECRET],
        "on_error": ["ignore"],
    },
    "download": {
        "document": [f"https://x/{SECRET}"],
        "file": [1, -1, True, "0"],
        "on_progress": [*NO_PLAIN_FUNCTIONS],
        "destination": ["", "a\0b", b"bytes", 7, object, ["a"], "s3://bucket/x", "memory:///",
            "file:///tmp/x/", io.StringIO()],
    },
    "download_all": {
        "documents": [None, SECRET],
        "directory": [None, open],
        "on_error": ["ignore"],
        "names": ["no fields", "", "plain", "{application_id}.{ext}", ".{ext}",
            "{document_id}/../x", "/{document_id}", "{document_id}/", "a//{document_id}",
            "../{document_id}", "a/../{document_id}", "./{document_id}", ".{document_id}",
            "{document_id}..", "a..b/{document_id}", "-{document_id}", "~/{document_id}",
            " {document_id}", "{document_id} ", "a\\{document_id}", "C:{document_id}",
            "{document_id}\n", "{document_id}\0", "\u202e{document_id}", "e\u0301/{document_id}",
            "{document_id", "document_id}", "{}", "{0}", "{unknown}", "{document_id.__class__}",
            "{document_id[0]}", "{document_id!r}", "{document_id:>10}", "{document_id:{file}}",
            "{document_id}{ext}", "{document_id}.{ext}.gz", "{ext}/{document_id}.{ext}", "{ext}",
            "1/2/3/4/5/6/7/8/{document_id}", "{document_id}{document_id}{document_id}",
            "x" * 250 + "/{document_id}", b"{document_id}", None],
    },
    "poll": {
        "store": ["store.db", SECRET],
        "name": [""],
        "standby": [0, -1.0, "yes", math.nan, math.inf],
        "start": ["yesterday", 17],
    },
    "BasicAuth": {
        "username": ["a:b", f"u:{SECRET}", f"u\udcff{SECRET}", "", BYTES, Secret(SECRET)],
        "password": ["", None, BYTES, f"{SECRET}\n", NO_TEXT],
    },
    "OAuth2ClientCredentials": {
        "client_secret": ["", BYTES, f"{SECRET}\n", NO_TEXT],
        "client_id": ["", BYTES, Secret(SECRET), f"u:{SECRET}", f"u\udcff{SECRET}"],
    },
    "Secret": {
        "text": [BYTES],
    },
    "StoredToken": {
        "access_token": ["", "a\r\nb", 7],
        "expires_at": [NOW.replace(tzinfo=None), "2026"],
    },
    "DownloadPolicy": {
        "allowed_hosts": ["a.example", b"a.example", (), None, 7, ["a.example", 7], [7], [None],
            [b"example.com"], ["a.example", "*"], [""], ["*"], ["*:443"], ["*.com"],
            ["*.10.0.0.1"], ["*."], ["*.*.example.com"], ["a.*.example.com"], ["*a.example.com"],
            ["example.com."], ["a..example.com"], [".example.com"], ["-a.example.com"],
            ["127.1"], ["0x7f.0.0.1"], ["2130706433"], ["010.0.0.1"], ["[1.2.3.4]"],
            ["a" * 64 + ".example.com"], ["[fe80::1%25lo]"], ["%61.example.com"],
            ["a." * 127 + "example.com"], ["::1"], ["[::1"], ["a:b:c"], ["example.com:"],
            ["example.com:0"], ["example.com:65536"], ["example.com:080"], ["example.com:http"],
            ["example.com:+80"], ["https://example.com"], ["example.com/path"],
            ["user:password@example.com"], ["exämple.com"], ["example .com"], ["example.com\n"]],
        "ssl": [True, False, "context"],
    },
    "SQLiteCheckpointStore": {
        "path": ["", ":memory:", "file:store.db", "FILE::memory:", Path(":memory:"), "a\0b",
            "sqlite:///store.db", b"store.db", None, 5],
    },
    "ParquetTables": {
        "folder": [None, 7, b"all"],
    },
    "to_arrow": {
        "records": [None, make_record(application_id="app-1")],
    },
    "CallbackBasicAuth": {
        "username": ["", "u:v"],
        "password": ["", None, Secret(""), "p\n"],
        "also": [7, [("u", SECRET)]],
    },
    "CallbackBearerAuth": {
        "issuer": [None, "", 5],
        "claims": [{}, {"": "x"}, "client_id", {"client_id": "x", "": "y"}, {"client_id": ""},
            {"client_id": 1.5}, {"iss": "x"}],
        "algorithms": [[], "ES256", ["none"], ["ES256K"], ["ES256", "HS256"]],
        "leeway": [-1, 60.5, math.nan, 10**400, True],
    },
    "jwks_url": {
        "jwks_url": ["http://id.example.test/keys", "ftp://127.0.0.1/keys", "http://0x7f.1/keys",
            "https:///keys", f"https://user:{SECRET}@id.example.test/keys",
            f"https://id.example.test/keys#{SECRET}", "https://a.example/k y", 5],
    },
    "CallbackClientCertificate": {
        "subject": ["", 7, [b"CN=callbacks"], "callbacks", "CN=callbacks, O=Income"],
        "san": ["*.service.example", "two words", ["a.example", ""], 7],
    },
    "proxy certificate": {
        "proxy_header": ["Client Cert", "", "X-Amzn-Mtls-Clientcert"],
        "verified_header": [("X-Verify", "SUCCESS")],
    },
    "verified certificate": {
        "verified_header": ["SUCCESS", ("X-Verify", "")],
    },
    "CallbackTokenIssuer": {
        "lifetime": [59, 86_401, 0, True, "60", math.nan, math.inf],
        "client_id": ["", "a:b"],
        "client_secret": ["", None, f"{SECRET}-short"],
        "also": [5, "x", [Secret(LONG)]],
    },
    "CallbackSourceNetworks": {
        "networks": [[], "198.51.100.7", 7, [""], [7], [None], ["198.51.100.7/24"],
            ["198.51.100.0/33"], ["callbacks.example"], ["unix:"], ["0.0.0.0/0"], ["::/0"],
            ["::ffff:0:0/96"]],
    },
    "TrustedProxies": {
        "proxies": ["10.0.0.1", 7, ["0.0.0.0/0"], ["::ffff:0:0/0"], ["proxy"]],
    },
    "CallbackReceiver": {
        "auth": [[], CallbackSourceNetworks(["198.51.100.7"]), [CALLBACKS, CALLBACKS],
            ["service:password"], None, BASIC, CallbackTokenIssuer("service", LONG), OAUTH2,
            CallbackClientCertificate(san="a.b", proxy_header="Client-Cert")],
        "on_callback": [7, yields, lambda: None, lambda _callback, _more: None],
        "on_repeat": ["ignore"],
        "trusted_proxies": ["10.0.0.1"],
    },
    "update_subscriber": {
        "broker": [None, "nats://127.0.0.1"],
        "durable": [1],
    },
    "NatsTokenStore": {
        "key": ["", "a b", "a.b", "ü", ">"],
    },
    "UpdateEvent.from_json": {
        "text": [None],
    },
    "from_json": {
        "text": [None, PAYLOAD],
        "record_class": [int, dict, BasicAuth, Window, list[int], None, []],
    },
    "to_json": {
        "record": [None, PAYLOAD | {"pay": 1.5}, {1: "x"}, {"x": make_record()}, {"x": [1.5]},
            {"x": Decimal("NaN")}, DEEP, "text", [make_record()], object(), ApplicationRecord],
    },
    "Emulator": {
        "applications": [-5, True, "many", [1.5]],
        "pattern": ["sideways"],
        "start": ["2026-06-30", datetime(2026, 6, 30, tzinfo=UTC)],
        "host": ["0.0.0.0", "example.com", "", "::"],
        "allow_hosts": ["emulator", 7, ["*"], ["emulator:80"], [""], [None], ["http://emulator"],
            ["*.example.com"]],
        "control_token": ["a-long-token",
            *map(Secret, ("short", "with a blank", "with-\u00fcmlaut", ""))],
        "oder": ["random"],
        "callbacks": [URL],
        "rules": [{"order": "shuffled"}],
    },
    "RemoteEmulator": {
        "url": ["ftp://127.0.0.1", "127.0.0.1:80", "http://", "http://user@127.0.0.1",
            f"http://u:{SECRET}@127.0.0.1"],
        "token": [b"a-long-token", "short"],
    },
    "ServiceRules": {
        "order": ["sideways"],
    },
    "Fault": {
        "kind": ["slow"],
        "path": [None],
        "status": [99, "503"],
        "call": ["get_document"],
        "rate": [1.5, "20%"],
        "retry_after": [5],
    },
    "Faults.add": {
        "fault": [FaultKind.RESET, None],
    },
    "CallbackTarget": {
        "url": ["http://example.com/callbacks", "http://127.0.0.1.example.com/",
            "http://user@127.0.0.1/", f"http://user:{SECRET}@127.0.0.1/",
            "http://127.0.0.1/#part", "http://127.0.0.1\\@example.com/", "http://127.0.0.1/a b",
            "http://127.0.0.1:/", "http://[::ffff:127.0.0.1]/", "ftp://127.0.0.1/",
            "127.0.0.1:9000", "", None, "http://127.0.0.1:70000/"],
        "auth": ["secret", OAUTH2],
        "token_url": ["http://127.0.0.1/"],
        "ssl": [ssl.create_default_context()],
        "pauses": [3, [1, -1]],
    },
    "make_document": {
        "extracted_dat": [1],
    },
    "make_record": {
        "suspeced": [1],
        "suspected": [2],
    },
}
# fmt: on
"""Values of one argument that a call refuses, the others being valid."""

BACKWARDS: Final = {"updated_after": "2026-06-02", "updated_before": "2026-06-01"}
TOGETHER: Final[list[tuple[str, dict[str, Any], str]]] = [
    ("IncomeClient", {"proxy": f"http://user:{SECRET}@proxy", "concurrency": 0}, "concurrency"),
    ("IncomeClient", {"token_store": object(), "auth": OAUTH2}, "token_store"),
    ("IncomeClient", {"proxy": PROXY, "base_url": "http://127.0.0.1:8000"}, "base_url"),
    (
        "IncomeClient",
        {"proxy": PROXY, "auth": OAUTH2, "auth_url": "http://127.0.0.1:8000"},
        "auth_url",
    ),
    ("get_application_page", BACKWARDS, "updated_after"),
    ("audit", BACKWARDS, "updated_after"),
    ("list_applications", BACKWARDS, "updated_after"),
    ("CallbackBearerAuth", {"keys": [Secret(LONG), LONG], "algorithms": ["HS256"]}, "keys"),
    ("CallbackBearerAuth", {"audience": None}, "audience"),
    ("CallbackBearerAuth", {"algorithms": ["RS256"]}, "keys"),
    ("CallbackBearerAuth", {"keys": None}, "keys, jwks_url"),
    ("CallbackBearerAuth", {"jwks_url": JWKS}, "keys, jwks_url"),
    *(
        ("CallbackBearerAuth", {"audience": audience, "claims": claims}, "audience")
        for claims in (None, {"scope": "c"})
        for audience in NO_AUDIENCES
    ),
    ("CallbackBearerAuth", {"keys": None, "jwks_url": JWKS, "algorithms": ["HS256"]}, "jwks_url"),
    ("verify", {"keys": KEY}, "verify"),
    ("verify", {"issuer": ISSUER}, "verify"),
    ("verify", {"audience": "a"}, "verify"),
    ("verify", {"claims": {"a": 1}}, "verify"),
    ("verify", {"leeway": 5.0}, "verify"),
    ("verify", {"algorithms": ["ES256"]}, "verify"),
    ("CallbackClientCertificate", {}, "subject"),
    ("CallbackClientCertificate", {"any_from_ca": True, "san": "a.example"}, "subject"),
    ("CallbackClientCertificate", {"san": ()}, "subject"),
    *(
        ("Emulator", {"host": host, "allow_hosts": ["emulator"]}, "host")
        for host in ("example.com", "", "0.0.0.0:1")
    ),
    ("Fault", {"rate": 0.5, "seed": None}, "seed"),
    ("Fault", {"kind": "status", "retry_after": -5}, "retry_after"),
    *(
        ("CallbackTarget", {"auth": OAUTH2, "token_url": url}, "token_url")
        for url in ("http://10.0.0.1/", "")
    ),
    ("to_arrow", {"records": yields()}, "records"),
    ("download_all", {"directory": ""}, "destination"),
]
"""Arguments that do not go together, or whose error has another name; and the name."""


def _rows() -> Iterator[Any]:
    """Return the calls that are refused, with the argument that each error names."""
    for values, places in NUMBERS:
        for place in places.split():
            call, _, name = place.partition(".")
            yield pytest.param(call, [{name: value} for value in values], name, id=place)
    for call, arguments in REFUSED.items():
        for name, values in arguments.items():
            rows = [{name: value} for value in values]
            yield pytest.param(call, rows, name, id=f"{call}.{name}")


async def _refused(call: str, arguments: dict[str, Any]) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:  # noqa: PT012 - a call may be awaited
        if inspect.isawaitable(result := CALLS[call](**arguments)):
            await result
    assert SECRET not in f"{caught.value} {caught.value!r}"
    return caught.value


@pytest.mark.parametrize(("call", "rows", "name"), list(_rows()))
async def test_invalid_arguments_are_refused(
    call: str, rows: list[dict[str, Any]], name: str
) -> None:
    """The call raises at once; the error names the argument, and shows nothing private of it."""
    for arguments in rows:
        error = await _refused(call, arguments)
        if call in NAMED_IN_WORDS:
            assert name in error.message.lower(), arguments
        else:
            assert error.argument == name, arguments


@pytest.mark.parametrize(("call", "arguments", "name"), TOGETHER)
async def test_arguments_that_do_not_go_together_are_refused(
    call: str, arguments: dict[str, Any], name: str
) -> None:
    error = await _refused(call, arguments)
    assert error.argument == name or name in error.message, arguments
