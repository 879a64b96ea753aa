"""Control of an emulator over HTTP: every call, who may call, its journal as a stream."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from typing import Any, Final

import aiohttp
import pytest
from yarl import URL

from income_client.emulator import CallbackTarget, Emulator, HttpRequest
from income_client.emulator.access import ControlAccess, ServedHosts
from income_client.emulator.control import ROUTES
from income_client.emulator.event_streams import MOST_STREAMS
from income_client.emulator.exchange import ListedPage
from income_client.emulator.journal import MOST_ENTRIES
from income_client.settings import Secret
from tests.support.emulated import LIST, basic_header, get_status
from tests.support.server import ScriptedServer, in_turn, reply
from tests.support.service import until

TOKEN: Final = "invented-control-token"
ADDED: Final = {
    "application_id": "mine",
    "application_reference_id": "ref-1",
    "application_date": "2026-06-01T08:00:00",
    "amount": 12.50,
}
DOCUMENTS: Final = {"documents": {"paystub": [{"document_id": "doc-mine", "file_ids": ["f"]}]}}


class Controlling:
    """Calls the control of an emulator with good credentials.

    Attributes:
        called: method and path of each.
    """

    def __init__(self, service: Emulator, session: aiohttp.ClientSession) -> None:
        self._service = service
        self._session = session
        self.called: list[tuple[str, str]] = []

    async def __call__(
        self, method: str, path: str, body: Any = None, status: int = 200, **headers: str
    ) -> Any:
        """Call, and return the content of the reply, which has this status."""
        self.called.append((method, path))
        sent = {**basic_header(self._service), **headers}
        async with self._session.request(
            method, f"{self._service.url}/emulator{path}", json=body, headers=sent
        ) as answer:
            assert answer.status == status, await answer.text()
            assert answer.headers["X-Frame-Options"] == "DENY"
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            return await answer.json()


@pytest.fixture
def control(service: Emulator, session: aiohttp.ClientSession) -> Controlling:
    """The control of the emulator."""
    return Controlling(service, session)


async def test_time_rules_faults_and_callbacks(service: Emulator, control: Controlling) -> None:
    """Each call of theirs does what its summary says."""
    calls = (await control("GET", "/"))["calls"]
    assert [call["path"] for call in calls] == [route.path for route in ROUTES]
    (rules,) = (call["body"]["ANY_RULE"] for call in calls if call["method"] == "PATCH")
    for option in ("--bounds is lower_closed and", "--expiry is url_lif", "--file-size is file_b"):
        assert option in rules
    began = await control("GET", "/state")
    assert began["applications"]["count"] == 50
    assert began["limits"] == {"usual": 25, "maximum": 1000}

    assert await control("GET", "/clock") == began["clock"]
    assert began["clock"] == {"service_time": "2026-06-30T12:00:00", "time_flows": False}
    moved = await control("POST", "/clock", {"advance_seconds": 61.5})
    assert moved["service_time"] == "2026-06-30T12:01:01"
    changed = await control("PATCH", "/rules", {"order": "shuffled", "max_span": 60})
    assert changed == await control("GET", "/rules") == {**began["rules"], **changed}
    assert (service.rules.order.value, service.rules.max_span) == ("shuffled", 60)
    await control("PATCH", "/rules", {"order": "ascending", "max_span": None})

    faults = await control("POST", "/faults", {"faults": "get_application(a): ok x2, 503 x3"}, 201)
    assert faults == await control("GET", "/faults")
    (fault,) = faults["faults"]
    assert (fault["call"], fault["application_id"], fault["status"]) == (
        "get_application",
        "a",
        503,
    )
    assert (fault["requests_to_skip"], fault["requests_left"]) == (2, 3)
    assert (await control("DELETE", "/faults"))["faults"] == []
    await control("POST", "/tokens/revoke")
    async with ScriptedServer(in_turn(reply(503), reply())) as server:
        service.callbacks = CallbackTarget(server.url, pauses=[0])
        fired = await control("POST", "/callbacks", {"event_type": "error"})
    assert (fired["delivered"], fired["answers"]) == (True, ["503", "200"])


async def test_applications(
    service: Emulator, session: aiohttp.ClientSession, control: Controlling
) -> None:
    """They are found, read, updated, added, replaced and removed, and the service serves that."""
    await control("POST", "/clock", {"advance_seconds": 61})
    listed = await control("GET", "/applications?limit=20&offset=40")
    assert [len(listed["applications"]), listed["total"], listed["next"]] == [10, 50, None]
    assert (await control("GET", "/applications?limit=20"))["next"] == 20
    first = listed["applications"][-1]
    searched = f"/applications?search={first['application_reference_id']}"
    assert (await control("GET", searched))["applications"] == [first]
    one = f"/applications/{first['application_id']}"
    before = await control("GET", one)
    assert {**before, **first} == before
    assert before["application"]["income_calculations"]
    assert "Signature" not in json.dumps(before)
    touched = await control("POST", f"{one}/touch")
    assert (touched["updated_at"], touched["updates"]) == ("2026-06-30T12:01:01", 1)
    after = await control("GET", one)
    assert (
        after["application"]["income_calculations"] != before["application"]["income_calculations"]
    )
    newest = (await control("GET", "/applications?limit=1"))["applications"]
    assert newest == [touched]
    added = await control(
        "POST", "/applications", {"application": ADDED, "documents": DOCUMENTS, "now": True}, 201
    )
    assert (added["updated_at"], added["added"]) == ("2026-06-30T12:01:01", True)
    served = await control("GET", "/applications/mine")
    assert served["application"] == {**ADDED, "last_updated_at": "2026-06-30T12:01:01Z"}
    assert served["documents"]["documents"] == DOCUMENTS["documents"]
    content = service.content_of("doc-mine")
    await control("POST", "/documents/doc-mine/replace-file")
    assert service.content_of("doc-mine") != content
    replaced = await control("PUT", "/applications/mine", {"application": {**ADDED, "amount": 7}})
    assert replaced["updates"] == 1
    assert (await control("GET", "/applications/mine"))["application"]["amount"] == 7
    assert await get_status(session, service, f"{LIST}/mine") == 200
    for gone in ("mine", first["application_id"]):
        assert await control("DELETE", f"/applications/{gone}") == {"application_id": gone}
        await control("GET", f"/applications/{gone}", status=404)
        assert await get_status(session, service, f"{LIST}/{gone}") == 404
    assert len(service.world) == len(service.world.ids) == 49
    assert (await control("GET", "/applications"))["total"] == 49

    # The histogram is of the very rows that the list gives.
    histogram = await control("GET", "/histogram?buckets=7")
    rows = [bucket["rows"] for bucket in histogram["buckets"]]
    assert (len(rows), sum(rows), histogram["rows"]) == (7, 49, 49)
    inner = [histogram["buckets"][place]["start"] for place in (2, 3)]
    window = f"updated_after={inner[0]}&updated_before={inner[1]}"
    part = await control("GET", f"/histogram?buckets=3&{window}")
    assert part["rows"] == rows[2]


async def test_the_journal_and_a_new_beginning(
    service: Emulator, session: aiohttp.ClientSession, control: Controlling
) -> None:
    """It says what was asked and answered; a reset undoes all but the numbers of its entries."""
    began = await control("GET", "/state")
    await control("POST", "/clock", {"advance_seconds": 61})
    await control("PATCH", "/rules", {"visibility_delay": 9})
    await control("POST", f"/applications/{service.world.ids[0]}/touch")
    await control("POST", "/applications", {"application": ADDED}, 201)
    for query in ("?limit=5", "?limit=900&updated_after=2020-01-01", "?limit=5000", "/nobody"):
        await get_status(session, service, f"{LIST}{query}")
    async with session.get(f"{service.url}{LIST}", headers=basic_header(service)) as answer:
        known_as = answer.headers["X-Request-Id"]
    await control("POST", "/faults", {"faults": "503, garbage"}, 201)
    assert len((await control("GET", "/faults"))["faults"]) == 2
    await get_status(session, service)
    with suppress(aiohttp.ClientError):
        await get_status(session, service)
    await control("POST", "/faults", {"faults": "file: cut"}, 201)

    journal = await control("GET", "/requests?after=0&limit=2")
    full, rest = journal["requests"]
    assert [full["id"], rest["id"], journal["next"], journal["last"]] == [1, 2, 2, 7]
    assert (full["call"], full["status"], full["fault"]) == ("list_applications", 200, None)
    page = full["page"]
    assert (page["limit"], page["rows"], page["full"], page["by_reference"]) == (5, 5, True, False)
    page = rest["page"]
    assert page["asked"] == {"updated_after": "2020-01-01T00:00:00", "updated_before": None}
    assert page["applied"]["updated_before"] == rest["service_time"]
    assert (page["rows"], page["full"], rest["path"]) == (50, False, LIST)
    behind = (await control("GET", "/requests?after=2"))["requests"]
    refused, unknown, found, failed, garbled = behind
    page = refused["page"]
    assert (refused["status"], page["limit"], page["rows"]) == (400, None, None)
    assert (unknown["application_id"], unknown["page"]) == ("nobody", None)
    assert (found["request_id"], garbled["request_id"]) == (known_as, None)
    assert len({each["request_id"] for each in (full, rest, found, failed)}) == 4
    state = (await control("GET", "/state"))["requests"]
    assert (state["count"], state["full_pages"], state["last"]) == (7, 3, 7)
    assert await control("DELETE", "/requests") == {"last": 7}
    assert (await control("GET", "/requests"))["requests"] == []
    began["requests"] |= {"first": 8, "last": 7}
    assert await control("POST", "/reset") == began
    assert len(service.world) == 50


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nowhere", None, 404, "no_such_path"),
        ("POST", "/state", None, 405, "method_not_allowed"),
        ("GET", "/applications/nobody", None, 404, "no_such_application"),
        ("POST", "/applications/nobody/touch", None, 404, "no_such_application"),
        ("POST", "/documents/nothing/replace-file", None, 404, "no_such_document"),
        ("GET", "/applications?limit=0", None, 400, "invalid_parameter"),
        ("GET", "/applications?limits=1", None, 400, "invalid_parameter"),
        ("GET", "/requests?after=1&after=2", None, 400, "invalid_parameter"),
        ("GET", f"/requests?after={'9' * 5000}", None, 400, "invalid_parameter"),
        ("GET", "/histogram?buckets=1000000000", None, 400, "invalid_parameter"),
        ("GET", "/histogram?updated_after=yesterday", None, 400, "invalid_parameter"),
        ("GET", "/histogram?updated_before=1990-01-01", None, 400, "invalid_value"),
        ("GET", "/state?x=%ff", None, 400, "invalid_parameter"),
        ("POST", "/clock", {"advance_seconds": -1}, 400, "invalid_body"),
        ("POST", "/clock", {"advance_seconds": 1e300}, 400, "invalid_body"),
        ("POST", "/clock", [], 400, "invalid_body"),
        ("POST", "/reset", {"everything": True}, 400, "invalid_body"),
        ("PATCH", "/rules", {"oder": "shuffled"}, 400, "invalid_value"),
        ("PATCH", "/rules", {"order": "sideways"}, 400, "invalid_value"),
        ("POST", "/faults", {"faults": "any: 5O3"}, 400, "invalid_value"),
        ("POST", "/faults", {"faults": "ok"}, 400, "invalid_value"),
        ("POST", "/applications", {"application": 7}, 400, "invalid_body"),
        ("POST", "/applications", {"application": ADDED, "later": 1}, 400, "invalid_body"),
        (
            "POST", "/applications",
            {"application": {**ADDED, "application_date": "0001-01-01T00:00:00+14:00"}},
            400, "invalid_value",
        ),
        (
            "POST", "/applications", {"application": ADDED, "documents": {"documents": []}},
            400, "invalid_body",
        ),
        (
            "POST", "/applications",
            {"application": ADDED, "documents": {**DOCUMENTS, "application_id": "other"}},
            400, "invalid_value",
        ),
        ("PUT", "/applications/nobody", {"application": ADDED}, 404, "no_such_application"),
        ("POST", "/callbacks", {"application_id": "nobody"}, 404, "no_such_application"),
        ("POST", "/callbacks", {"application_id": 7}, 400, "invalid_order"),
        ("POST", "/callbacks", None, 400, "invalid_order"),
    ],
)  # fmt: skip
async def test_a_bad_call_changes_nothing_and_says_why(
    service: Emulator,
    control: Controlling,
    method: str,
    path: str,
    body: Any,
    status: int,
    code: str,
) -> None:
    """Its reply has a code for programs and a sentence for people, and the emulator runs on."""
    service.callbacks = CallbackTarget("http://127.0.0.1:9")
    before = await control("GET", "/state")
    error = await control(method, path, body, status)
    assert (error["error"], sorted(error)) == (code, ["error", "message"])
    assert len(error["message"]) < 300
    assert await control("GET", "/state") == before


async def test_bodies_that_are_not_json_are_refused(
    service: Emulator, session: aiohttp.ClientSession
) -> None:
    """What a form of a page could send is 415, what is too long 413, what is nested deep 400."""
    for content, kind, expected in (
        (b'{"advance_seconds": 9}', "", (415, "not_json")),
        (b'{"advance_seconds": 9}', "text/plain", (415, "not_json")),
        (b"advance_seconds=9", "application/x-www-form-urlencoded", (415, "not_json")),
        (b"{", "application/json", (400, "invalid_body")),
        (b'{"advance_seconds": "\xff"}', "application/json", (400, "invalid_body")),
        (b"[" * 100_000, "application/json", (400, "invalid_body")),
        (BytesIO(b" " * 2_000_000), "application/json", (413, "too_large")),
    ):
        headers = {**basic_header(service), "Content-Type": kind}
        url = f"{service.url}/emulator/clock"
        async with session.post(url, data=content, headers=headers) as answer:
            error = await answer.json()
            assert (answer.status, error["error"]) == expected
            is_about_header = "the header Content-Type: application/json" in error["message"]
            assert is_about_header == (expected[0] == 415)
    assert service.now == service.world.now


# Who may control it


async def test_the_credentials_that_it_prints_control_it(
    service: Emulator, session: aiohttp.ClientSession
) -> None:
    """Both pairs do, as Basic; of others it says what is wrong with them."""
    client = service.oauth2.authorization().reveal()
    for authorization, status, said in (
        (client, 200, ""),
        (service.basic.authorization().reveal(), 200, ""),
        (client.replace("Basic", "Bearer"), 401, "the token is wrong"),
        ("Basic d3Jvbmc6cGFpcg==", 401, "the credentials that the emulator printed"),
        ("Basic \udcff", 401, "the credentials that the emulator printed"),
    ):
        headers = {"Authorization": authorization}
        async with session.delete(f"{service.url}/emulator/faults", headers=headers) as answer:
            assert (answer.status, said in await answer.text()) == (status, True)


@pytest.mark.parametrize(
    ("method", "peer", "headers", "without_token", "with_token"),
    [
        ("GET", "127.0.0.1", {}, None, 401),
        ("GET", "::1", {"host": "[::1]:8000"}, None, 401),
        ("GET", "::ffff:127.0.0.1", {}, None, 401),
        ("POST", "127.0.0.1", {}, 401, 401),
        ("POST", "127.0.0.1", {"authorization": "right"}, None, None),
        ("POST", "127.0.0.1", {"authorization": "wrong"}, 401, 401),
        ("GET", "127.0.0.1", {"authorization": "wrong"}, 401, 401),
        ("POST", "127.0.0.1", {"authorization": f"Bearer {TOKEN}"}, 401, None),
        # Another host, also where a proxy of this machine stands before the emulator
        ("GET", "192.0.2.1", {"host": "emulator:8000"}, 403, 401),
        ("GET", "127.0.0.1", {"host": "emulator:8000"}, 403, 401),
        ("GET", "192.0.2.1", {}, 403, 401),
        ("POST", "192.0.2.1", {"authorization": "right"}, 403, 401),
        ("POST", "192.0.2.1", {"authorization": f"bearer  {TOKEN}"}, 403, None),
        ("POST", "192.0.2.1", {"authorization": f"Bearer {TOKEN}x"}, 403, 401),
        ("POST", "192.0.2.1", {"authorization": f"Basic {TOKEN}"}, 403, 401),
        ("POST", "192.0.2.1", {"authorization": "Bearer \udcff"}, 403, 401),
        ("GET", "", {}, 403, 401),
        # DNS rebinding, and pages of other origins
        ("GET", "127.0.0.1", {"host": "evil.example:8000"}, 421, 421),
        ("GET", "127.0.0.1", {"host": "localhost.evil.example"}, 421, 421),
        ("GET", "127.0.0.1", {"host": ""}, 421, 421),
        ("GET", "127.0.0.1", {"host": "emulator.evil.example"}, 421, 421),
        ("GET", "127.0.0.1", {"origin": "http://evil.example"}, 403, 403),
        ("GET", "127.0.0.1", {"origin": "null"}, 403, 403),
        ("POST", "127.0.0.1", {"origin": "http://[::1]:90", "authorization": "right"}, 403, 403),
        ("GET", "127.0.0.1", {"sec-fetch-site": "cross-site"}, 403, 403),
        ("GET", "127.0.0.1", {"sec-fetch-site": "same-site"}, 403, 403),
        ("POST", "127.0.0.1", {"host": "a.localhost", "origin": "http://a.localhost"}, 421, 421),
        # Its own page
        ("GET", "127.0.0.1", {"sec-fetch-site": "none"}, None, 401),
        ("POST", "127.0.0.1", {"origin": "http://127.0.0.1:8000"}, None, 401),
        ("POST", "192.0.2.1", {"origin": "http://127.0.0.1:8000"}, 403, 401),
    ],
)  # fmt: skip
def test_who_may_control_it(
    method: str,
    peer: str,
    headers: dict[str, str],
    without_token: int | None,
    with_token: int | None,
) -> None:
    """This machine may, another host only with the token, a page of another origin never."""
    sent = {"host": "127.0.0.1:8000", **headers}
    request = HttpRequest(method=method, path="/emulator/x", headers=sent, peer=peer)
    hosts = ServedHosts.read(["emulator"])
    statuses = []
    for token in (None, Secret(TOKEN)):
        is_right = sent.get("authorization") == "right"
        refusal = ControlAccess(hosts, token).refusal(request, has_credentials=is_right)
        statuses.append(refusal and refusal.status)
    assert statuses == [without_token, with_token]


async def test_files_come_from_the_very_host_that_it_is_known_by(
    session: aiohttp.ClientSession,
) -> None:
    """And port: its address is all that other hosts need."""
    async with Emulator(5, host="0.0.0.0", allow_hosts=["emulator"]) as service:
        assert URL(service.url).host == "127.0.0.1"
        for host in ("emulator:99", "localhost:7"):
            headers = {**basic_header(service), "Host": host}
            path = f"{LIST}/{service.world.ids[0]}/documents"
            async with session.get(service.url + path, headers=headers) as answer:
                found = await answer.json()
            url = URL(found["documents"]["paystub"][0]["url"], encoded=True)
            assert url.authority == host
            here = URL(f"{service.url}{url.raw_path_qs}", encoded=True)
            async with session.get(here, headers={"Host": host}) as file:
                assert (file.status, file.content_type) == (200, "application/pdf")


async def test_a_name_below_localhost_is_served_where_it_listens_on_it() -> None:
    """It may be named too; from this machine it is controlled by it as by localhost."""
    for service in (Emulator(1, host="my.localhost"), Emulator(1, allow_hosts=["my.localhost"])):
        for host, status in (("my.localhost", 200), ("localhost", 200), ("other.localhost", 421)):
            sent = {"host": f"{host}:8000", "origin": f"http://{host}:8000"}
            asked = HttpRequest(method="POST", path="/emulator/reset", headers=sent)
            reply = await service._handle_api(asked, None)
            assert getattr(reply, "status", None) == status


# The journal and its streams


async def test_the_journal_is_bounded_and_holds_nothing_private(
    service: Emulator, session: aiohttp.ClientSession, control: Controlling
) -> None:
    """Of twelve thousand requests ten thousand are kept; of none a header, a body, a signature."""
    await get_status(session, service)
    documents = f"{LIST}/{service.world.ids[0]}/documents"
    async with session.get(service.url + documents, headers=basic_header(service)) as answer:
        url = (await answer.json())["documents"]["paystub"][0]["url"]
    async with session.get(URL(url, encoded=True)) as file:
        await file.read()
    async with session.get(service.url + LIST, params={"updated_after": TOKEN}) as answer:
        assert answer.status == 401
    shown = json.dumps(await control("GET", "/requests"))
    assert not any("authorization" in recorded.headers for recorded in service.requests)
    for private in ("Signature", "invented-password", "Basic", TOKEN):
        assert private not in shown
    request = HttpRequest(method="GET", path=f"/{'x' * 5000}", query="y" * 5000)
    answered: dict[str, Any] = {"status": 200, "fault": None, "seconds": 0.001, "second": 1}
    page = ListedPage(after=1, before=2, rows=3, limit=3)
    for _ in range(MOST_ENTRIES + 2000):
        service.journal.add(request, listed=page, **answered)
    assert len(service.journal) == MOST_ENTRIES
    pieces = await control("GET", "/requests?after=0&limit=1000")
    assert len(pieces["requests"]) == 1000
    assert pieces["first"] == pieces["requests"][0]["id"] == pieces["last"] - MOST_ENTRIES + 1
    assert len(pieces["requests"][0]["path"]) == 200
    service.journal.clear()  # tests that look at all objects come after this one


class Events:
    """The events of a stream as they come."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def next(self) -> dict[str, str]:
        """Wait for an event, and return its fields."""
        while True:
            fields: dict[str, str] = {}
            while line := (await self._answer.content.readline()).decode().rstrip("\n"):
                name, _, text = line.partition(": ")
                fields[name] = text
            if "event" in fields:
                return fields
            if self._answer.content.at_eof():
                return {}


@asynccontextmanager
async def read_events(service: Emulator, query: str = "", **headers: str) -> AsyncIterator[Events]:
    """Read the stream of a service."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{service.url}/emulator/events{query}", headers=headers) as answer,
    ):
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        assert answer.headers["X-Frame-Options"] == "DENY"
        yield Events(answer)


async def test_the_journal_is_a_stream_that_resumes(
    session: aiohttp.ClientSession,
) -> None:
    """Each reader gets every request from its place on; nothing is left of those that end."""
    tasks = asyncio.all_tasks()
    async with Emulator(5) as service:
        for _ in range(3):
            await get_status(session, service)
        resuming = {"Last-Event-ID": "2"}
        async with (
            read_events(service) as live,
            read_events(service, "?after=0") as all_of_them,
            read_events(service, "?after=0", **resuming) as resumed,
        ):
            replayed = [await all_of_them.next() for _ in range(3)]
            assert [each["id"] for each in replayed] == ["1", "2", "3"]
            assert (await resumed.next())["id"] == "3"
            await until(lambda: len(service.journal.listeners) == 3)
            await get_status(session, service)
            for events in (live, all_of_them, resumed):
                event = await events.next()
                assert (event["event"], event["id"]) == ("request", "4")
            assert json.loads(event["data"])["page"]["rows"] == 5
            service.reset()
            assert await live.next() == {"event": "reset", "data": "{}"}
            await get_status(session, service)
            assert (await live.next())["id"] == "5"
        await until(lambda: not service.journal.listeners)
        async with read_events(service) as cut:
            await service.close()
            assert await cut.next() == {}
        assert not service.journal.listeners
        await service.start()
        async with read_events(service, "?after=4") as events:
            assert (await events.next())["id"] == "5"
    await session.close()
    await until(lambda: asyncio.all_tasks() <= tasks)


async def test_a_reader_that_leaves_in_a_replay_is_no_error(
    service: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    """Its stream ends, and nothing is logged of what could not be written any more."""
    request = HttpRequest(method="GET", path="/" + "x" * 200)
    for _ in range(MOST_ENTRIES):
        service.journal.add(
            request, status=200, fault=None, listed=None, seconds=0.0, second=service.now
        )
    port = URL(service.url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    ask = f"GET /emulator/events?after=0 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
    writer.write(ask.encode())
    writer.write_eof()
    with suppress(ConnectionError):
        while await reader.read(65536):
            pass
    writer.close()
    await until(lambda: not service.journal.listeners)
    assert caplog.messages == []


async def test_a_slow_reader_is_disconnected_and_so_are_too_many(
    service: Emulator, session: aiohttp.ClientSession
) -> None:
    """One that does not read is dropped once the journal is past it, and the others go on."""
    request = HttpRequest(method="GET", path="/" + "x" * 200)
    answered: dict[str, Any] = {"status": 200, "fault": None, "listed": None}
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setblocking(False)  # noqa: FBT003 - the standard library's
        loop = asyncio.get_running_loop()
        port = URL(service.url).port
        await loop.sock_connect(slow, ("127.0.0.1", port))
        ask = f"GET /emulator/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
        await loop.sock_sendall(slow, ask.encode())
        await until(lambda: len(service.journal.listeners) == 1)
        while service.journal.listeners:
            for _ in range(1000):
                service.journal.add(request, seconds=0.0, second=1, **answered)
            await asyncio.sleep(0)
            assert service.journal.last < 50 * MOST_ENTRIES
    service.journal.clear()  # as above
    streams = [await session.get(f"{service.url}/emulator/events") for _ in range(MOST_STREAMS)]
    async with session.get(f"{service.url}/emulator/events") as answer:
        assert (answer.status, (await answer.json())["error"]) == (503, "too_many_streams")
    for stream in streams:
        stream.close()
