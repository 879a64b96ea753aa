"""Control of an emulator over HTTP: every command, who may send one, and the journal."""

import json
from contextlib import suppress
from io import BytesIO
from typing import Any, Final

import aiohttp
import pytest
from yarl import URL

from income_client.emulator import CallbackTarget, Emulator, HttpRequest
from income_client.emulator.access import ControlAccess, ServedHosts
from income_client.emulator.control import COMMANDS
from income_client.emulator.exchange import ListedPage
from income_client.emulator.journal import MOST_ENTRIES
from income_client.emulator.times import parse_bound, stamp
from income_client.settings import Secret
from tests.support.emulated import LIST, basic_header, get_status
from tests.support.server import ScriptedServer, in_turn, reply

TOKEN: Final = "invented-control-token"
ADDED: Final = {
    "application_id": "mine",
    "application_reference_id": "ref-1",
    "application_date": "2026-06-01T08:00:00",
    "amount": 12.50,
}
DOCUMENTS: Final = {"documents": {"paystub": [{"document_id": "doc-mine", "file_ids": ["f"]}]}}


class Controlling:
    """Sends commands to the control of an emulator with good credentials."""

    def __init__(self, service: Emulator, session: aiohttp.ClientSession) -> None:
        self._service = service
        self._session = session

    async def __call__(self, name: str, **arguments: Any) -> Any:
        """Send a command that succeeds, and return the content of the reply."""
        return await self.send(COMMANDS[name].method, name, arguments)

    async def send(self, method: str, path: str, arguments: Any = None, status: int = 200) -> Any:
        """Send a request, and return the content of its reply, which has this status."""
        sent = {"params" if method == "GET" else "json": arguments}
        url = f"{self._service.url}/emulator/{path}"
        headers = basic_header(self._service)
        async with self._session.request(method, url, headers=headers, **sent) as reply:
            assert reply.status == status, await reply.text()
            assert reply.headers["X-Frame-Options"] == "DENY"
            assert "frame-ancestors 'none'" in reply.headers["Content-Security-Policy"]
            return await reply.json()


@pytest.fixture
def control(service: Emulator, session: aiohttp.ClientSession) -> Controlling:
    """The control of the emulator."""
    return Controlling(service, session)


async def test_time_rules_faults_and_callbacks(service: Emulator, control: Controlling) -> None:
    """Each command about them does what its docstring says."""
    began = await control("state")
    assert (began["applications"], began["seed"], began["time_flows"]) == (50, 7, False)
    assert await control("now") == began["service_time"] == "2026-06-30T12:00:00"
    assert await control("advance", seconds=61.5) == "2026-06-30T12:01:01"
    changed = await control("change_rules", rules={"order": "shuffled", "max_span": 60})
    assert changed == await control("rules") == {**began["rules"], **changed}
    assert (service.rules.order.value, service.rules.max_span) == ("shuffled", 60)
    await control("change_rules", rules={"order": "ascending", "max_span": None})

    await control("add_faults", faults="get_application(a): ok x2, 503 x3")
    (fault,) = await control("faults")
    assert (fault["call"], fault["application_id"], fault["status"]) == (
        "get_application",
        "a",
        503,
    )
    assert (fault["requests_to_skip"], fault["requests_left"]) == (2, 3)
    await control("clear_faults")
    assert await control("faults") == []
    await control("revoke_tokens")
    async with ScriptedServer(in_turn(reply(503), reply())) as server:
        service.callbacks = CallbackTarget(f"{server.url}/in?key=hidden", pauses=[0])
        assert (await control("state"))["callbacks_url"] == f"{server.url}/in"
        fired = await control("fire_callback", event_type="error")
    assert (fired["event_type"], fired["attempts"]) == ("error", [503, 200])


async def test_the_index_lists_every_command(service: Emulator, control: Controlling) -> None:
    """With its method, its path, the names of its arguments and its docstring."""
    for path in ("", "/"):
        async with aiohttp.request("GET", f"{service.url}/emulator{path}") as reply:
            commands = {each["path"]: each for each in (await reply.json())["commands"]}
        assert list(commands) == [f"/emulator/{name}" for name in COMMANDS]
    one = commands["/emulator/change_rules"]
    assert (one["method"], one["arguments"]) == ("POST", ["rules"])
    for option in ("``--bounds`` is ``lower_closed`` and", "--expiry", "--file-size"):
        assert option in one["about"]
    variables = await control("environment")
    assert variables["INCOME_BASE_URL"] == service.url
    assert variables["INCOME_CLIENT_SECRET"] == service.oauth2.client_secret.reveal()


async def test_applications(
    service: Emulator, session: aiohttp.ClientSession, control: Controlling
) -> None:
    """Applications are searched, read, updated, added, replaced and removed; the service agrees."""
    await control("advance", seconds=61)
    assert len(await control("applications")) == 50
    listed = await control("applications", limit=20, offset=40)
    assert len(listed) == 10
    first = listed[-1]
    one = {"application_id": first["application_id"]}
    assert await control("applications", search=first["application_reference_id"]) == [first]
    assert await control("applications", search="nothing like this") == []
    before = await control("application", **one)
    assert before["application"]["income_calculations"]
    assert before["documents"]["documents"]
    assert "Signature" not in json.dumps(before)
    touched = await control("touch", **one)
    assert (touched["updated_at"], touched["updates"]) == ("2026-06-30T12:01:01", 1)
    after = await control("application", **one)
    assert (
        after["application"]["income_calculations"] != before["application"]["income_calculations"]
    )
    assert await control("applications", limit=1) == [touched]
    added = await control("add", application=ADDED, documents=DOCUMENTS, now=True)
    assert (added["updated_at"], added["added"]) == ("2026-06-30T12:01:01", True)
    mine = {"application_id": "mine"}
    served = await control("application", **mine)
    assert served["application"] == {**ADDED, "last_updated_at": "2026-06-30T12:01:01Z"}
    assert served["documents"]["documents"] == DOCUMENTS["documents"]
    content = service.content_of("doc-mine")
    await control("replace_file", document_id="doc-mine")
    assert service.content_of("doc-mine") != content
    replaced = await control("replace", application={**ADDED, "amount": 7})
    assert replaced["updates"] == 1
    assert (await control("application", **mine))["application"]["amount"] == 7
    assert await get_status(session, service, f"{LIST}/mine") == 200
    for gone in (mine, one):
        assert await control("remove", **gone) is None
        await control.send("GET", "application", gone, 400)
        assert await get_status(session, service, f"{LIST}/{gone['application_id']}") == 404
    assert len(service.world) == len(service.world.ids) == 49
    assert len(await control("applications")) == (await control("state"))["applications"] == 49

    # The histogram is of the very rows that the list gives.
    histogram = await control("histogram", buckets=7)
    rows = histogram["rows"]
    assert (len(rows), sum(rows)) == (7, 49)
    first_second = parse_bound(histogram["updated_after"])
    assert first_second is not None
    bounds = [stamp(first_second + n * histogram["bucket_seconds"]) for n in (2, 3)]
    part = await control("histogram", buckets=3, updated_after=bounds[0], updated_before=bounds[1])
    assert sum(part["rows"]) == rows[2]


async def test_amounts_of_added_applications_keep_their_digits(
    service: Emulator, session: aiohttp.ClientSession
) -> None:
    """The service and its control return all digits; other amounts are refused."""
    headers = {**basic_header(service), "Content-Type": "application/json"}
    body = json.dumps({"application": {**ADDED, "amount": 0}, "now": True})
    for amount, status in (("1e99999999999999999999", 400), ("99999999999999999.10", 200)):
        sent = body.replace('"amount": 0', f'"amount": {amount}')
        url = f"{service.url}/emulator/add"
        async with session.post(url, data=sent, headers=headers) as reply:
            assert reply.status == status
    for path in (f"{LIST}/mine", "/emulator/application?application_id=mine"):
        async with session.get(service.url + path, headers=headers) as reply:
            assert b'"amount":99999999999999999.10' in await reply.read()


async def test_the_journal_and_a_new_beginning(
    service: Emulator, session: aiohttp.ClientSession, control: Controlling
) -> None:
    """The journal has requests and replies; a reset undoes everything but the entries' numbers."""
    began = await control("state")
    await control("advance", seconds=61)
    await control("change_rules", rules={"visibility_delay": 9})
    await control("touch", application_id=service.world.ids[0])
    await control("add", application=ADDED)
    for query in ("?limit=5", "?limit=900&updated_after=2020-01-01", "?limit=5000", "/nobody"):
        await get_status(session, service, f"{LIST}{query}")
    async with session.get(f"{service.url}{LIST}", headers=basic_header(service)) as reply:
        known_as = reply.headers["X-Request-Id"]
    await control("add_faults", faults="503, garbage")
    assert len(await control("faults")) == 2
    await get_status(session, service)
    with suppress(aiohttp.ClientError):
        await get_status(session, service)
    await control("add_faults", faults="file: cut")

    full, rest = await control("requests", limit=2)
    assert [full["id"], rest["id"]] == [1, 2]
    assert (full["call"], full["status"], full["fault"]) == ("list_applications", 200, None)
    page = full["page"]
    assert (page["limit"], page["rows"], page["full"], page["by_reference"]) == (5, 5, True, False)
    page = rest["page"]
    assert page["asked"] == {"updated_after": "2020-01-01T00:00:00", "updated_before": None}
    assert page["applied"]["updated_before"] == rest["service_time"]
    assert (page["rows"], page["full"], rest["path"]) == (50, False, LIST)
    refused, unknown, found, failed, garbled = await control("requests", after=2)
    page = refused["page"]
    assert (refused["status"], page["limit"], page["rows"]) == (400, None, None)
    assert (unknown["application_id"], unknown["page"]) == ("nobody", None)
    assert (found["request_id"], garbled["request_id"]) == (known_as, None)
    assert len({each["request_id"] for each in (full, rest, found, failed)}) == 4
    state = await control("state")
    assert state["requests"] == {"list_applications": 6, "get_application": 1}
    assert (state["full_pages"], state["first_request"], state["last_request"]) == (3, 1, 7)
    await control("clear_requests")
    assert await control("requests") == []
    await control("reset")
    assert await control("state") == {**began, "first_request": 8, "last_request": 7}
    assert len(service.world) == 50


@pytest.mark.parametrize(
    ("method", "name", "arguments", "status", "code"),
    [
        ("GET", "nowhere", None, 404, "no_such_command"),
        ("GET", "touch/", None, 404, "no_such_command"),
        ("POST", "state", None, 405, "method_not_allowed"),
        ("GET", "reset", None, 405, "method_not_allowed"),
        ("GET", "application", None, 400, "invalid_arguments"),
        ("GET", "application", {"application_id": "nobody"}, 400, "invalid_value"),
        ("POST", "touch", {"application_id": "nobody"}, 400, "invalid_value"),
        ("POST", "touch", {"application_id": 7}, 400, "invalid_arguments"),
        ("POST", "touch", None, 400, "invalid_arguments"),
        ("POST", "remove", {"application_id": "nobody"}, 400, "invalid_value"),
        ("POST", "replace_file", {"document_id": "nothing"}, 400, "invalid_value"),
        ("GET", "applications", {"limit": "0"}, 400, "invalid_arguments"),
        ("GET", "applications", {"limits": "1"}, 400, "invalid_parameter"),
        ("GET", "requests", [("after", "1"), ("after", "2")], 400, "invalid_parameter"),
        ("GET", "requests", {"after": "9" * 5000}, 400, "invalid_arguments"),
        ("GET", "requests", {"after": "9" * 20}, 400, "invalid_arguments"),
        ("GET", "histogram", {"buckets": "1000000000"}, 400, "invalid_arguments"),
        ("GET", "histogram", {"updated_after": "yesterday"}, 400, "invalid_arguments"),
        ("GET", "histogram", {"updated_after": "2026-01-01T00:00:00Z"}, 400, "invalid_arguments"),
        ("GET", "histogram", {"updated_before": "1990-01-01T00:00:00"}, 400, "invalid_value"),
        ("GET", "state?x=%ff", None, 400, "invalid_parameter"),
        ("POST", "advance", {"seconds": -1}, 400, "invalid_arguments"),
        ("POST", "advance", {"seconds": 1e300}, 400, "invalid_arguments"),
        ("POST", "advance", [], 400, "invalid_arguments"),
        ("POST", "reset", {"everything": True}, 400, "invalid_arguments"),
        ("POST", "change_rules", {"rules": {"oder": "shuffled"}}, 400, "invalid_value"),
        ("POST", "change_rules", {"rules": {"order": "sideways"}}, 400, "invalid_value"),
        ("POST", "add_faults", {"faults": "any: 5O3"}, 400, "invalid_value"),
        ("POST", "add_faults", {"faults": "ok"}, 400, "invalid_value"),
        ("POST", "add", {"application": 7}, 400, "invalid_arguments"),
        ("POST", "add", {"application": {**ADDED, "application_id": 7}}, 400, "invalid_value"),
        ("POST", "add", {"application": ADDED, "later": 1}, 400, "invalid_arguments"),
        (
            "POST", "add",
            {"application": {**ADDED, "application_date": "0001-01-01T00:00:00+14:00"}},
            400, "invalid_value",
        ),
        (
            "POST", "add", {"application": ADDED, "documents": {"documents": []}},
            400, "invalid_value",
        ),
        (
            "POST", "add",
            {"application": ADDED, "documents": {**DOCUMENTS, "application_id": "other"}},
            400, "invalid_value",
        ),
        ("POST", "replace", {"application": ADDED}, 400, "invalid_value"),
        ("POST", "fire_callback", {"application_id": "nobody"}, 400, "invalid_value"),
        ("POST", "fire_callback", {"target": "http://127.0.0.1:9"}, 400, "invalid_arguments"),
    ],
)  # fmt: skip
async def test_a_bad_command_changes_nothing_and_says_why(
    service: Emulator,
    control: Controlling,
    method: str,
    name: str,
    arguments: Any,
    status: int,
    code: str,
) -> None:
    """The reply has a code for programs and a sentence for people, and the emulator runs on."""
    service.callbacks = CallbackTarget("http://127.0.0.1:9")
    before = await control("state")
    error = await control.send(method, name, arguments, status)
    assert (error["error"], sorted(error)) == (code, ["error", "message"])
    assert len(error["message"]) < 300
    assert await control("state") == before


async def test_a_callback_needs_a_target(control: Controlling) -> None:
    """The emulator says how it gets one."""
    error = await control.send("POST", "fire_callback", {}, 400)
    assert "nowhere to send callbacks to" in error["message"]


async def test_bodies_that_are_not_json_are_refused(
    service: Emulator, session: aiohttp.ClientSession
) -> None:
    """A media type that a form can send is 415, a long body 413, a deeply nested one 400."""
    for content, kind, expected in (
        (b'{"seconds": 9}', "", (415, "not_json")),
        (b'{"seconds": 9}', "text/plain", (415, "not_json")),
        (b"seconds=9", "application/x-www-form-urlencoded", (415, "not_json")),
        (b"{", "application/json", (400, "invalid_arguments")),
        (b'{"seconds": "\xff"}', "application/json", (400, "invalid_arguments")),
        (b"[" * 100_000, "application/json", (400, "invalid_arguments")),
        (BytesIO(b" " * 2_000_000), "application/json", (413, "too_large")),
    ):
        headers = {**basic_header(service), "Content-Type": kind}
        url = f"{service.url}/emulator/advance"
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
        url = f"{service.url}/emulator/clear_faults"
        async with session.post(url, headers=headers) as answer:
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
    """Access is for this machine, for other hosts with the token, and never for foreign pages."""
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
    """The name may also be an allowed host; from this machine, it controls as localhost does."""
    for service in (Emulator(1, host="my.localhost"), Emulator(1, allow_hosts=["my.localhost"])):
        for host, status in (("my.localhost", 200), ("localhost", 200), ("other.localhost", 421)):
            sent = {"host": f"{host}:8000", "origin": f"http://{host}:8000"}
            asked = HttpRequest(method="POST", path="/emulator/reset", headers=sent)
            reply = await service._handle_api(asked, None)
            assert getattr(reply, "status", None) == status


# The journal


async def test_the_journal_is_bounded_and_holds_nothing_private(
    service: Emulator, session: aiohttp.ClientSession, control: Controlling
) -> None:
    """Ten thousand requests are kept at most, without headers, bodies and signatures."""
    await get_status(session, service)
    documents = f"{LIST}/{service.world.ids[0]}/documents"
    async with session.get(service.url + documents, headers=basic_header(service)) as answer:
        url = (await answer.json())["documents"]["paystub"][0]["url"]
    async with session.get(URL(url, encoded=True)) as file:
        await file.read()
    async with session.get(service.url + LIST, params={"updated_after": TOKEN}) as answer:
        assert answer.status == 401
    shown = json.dumps(await control("requests"))
    assert not any("authorization" in recorded.headers for recorded in service.requests)
    for private in ("Signature", "invented-password", "Basic", TOKEN):
        assert private not in shown
    request = HttpRequest(method="GET", path=f"/{'x' * 5000}", query="y" * 5000)
    answered: dict[str, Any] = {"status": 200, "fault": None, "seconds": 0.001, "second": 1}
    page = ListedPage(after=1, before=2, rows=3, limit=3)
    for _ in range(MOST_ENTRIES + 2000):
        service.journal.add(request, listed=page, **answered)
    assert len(service.journal) == MOST_ENTRIES
    kept = await control("requests")
    assert len(kept) == MOST_ENTRIES
    state = await control("state")
    assert [state["first_request"], state["last_request"]] == [kept[0]["id"], kept[-1]["id"]]
    assert len(kept[0]["path"]) == 200
    service.journal.clear()  # tests that look at all objects come after this one
