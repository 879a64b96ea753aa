"""The replies of the service against the contract, and who may ask, without a socket."""

from random import Random

import msgspec
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from income_client.emulator import (
    ListReply,
    Order,
    Refused,
    ServiceRules,
    World,
    list_reply,
    respond,
)
from tests.support.emulated import (
    LIST,
    a_service,
    ask,
    ask_documents,
    ask_json,
    request_token,
    token_request,
)
from tests.support.listing import Outcome, Page, Query, Rules, list_rules
from tests.support.payloads import APPLICATION, DOCUMENTS, row_of_list

GRANT = b"grant_type=client_credentials"
TIMES = (
    *("yesterday", "", "2026-02-30", "0000-01-01", "2026-01-01T24:00:00", "2026-01-01T00:00"),
    *("2026-01-01T00:00:00.5", "2026-01-01%2000:00:00", "20260101", "2026-W01-1"),
    *("%D9%A2%D9%A0%D9%A2%D9%A6-01-01", "2026-01-01%0A", "2026-01-01T00:00:00Z"),
    "2026-01-01T00:00:00%2B00:00",
)


@pytest.mark.parametrize(
    "query",
    [
        *(f"limit={limit}" for limit in ("0", "1001", "-1", "ten", "", "1.0", "00000001")),
        *(f"updated_after={time}" for time in TIMES),
        "updated_before=2026-01-01T00:00:00Z",
        *("limit=1&limit=2", "cursor=abc", "limit", "%ff=%ff"),
    ],
)
def test_bad_list_parameters(query: str) -> None:
    reply = ask(a_service(1), query=query)
    assert reply.status == 400
    assert msgspec.json.decode(reply.body)["error"] == "invalid_parameter"


def test_a_reference_is_looked_for_within_the_bounds() -> None:
    service = a_service(100, 200)
    for bound, second, found in (
        *(("after", 19, 1), ("after", 20, 0)),
        *(("before", 20, 0), ("before", 21, 1)),
    ):
        bounds = f"updated_{bound}=1970-01-01T00:03:{second}"
        page = ask_json(service, query=f"application_reference_id=LOAN-00000001&{bounds}")
        ids = [row["application_id"] for row in page["applications"]]
        assert ids == [service.world.ids[1]] * found


APPLICANT = APPLICATION["applicants"]["applicant1"].keys()
DOCUMENT = DOCUMENTS["documents"]["unknown_form"][0].keys()


def test_replies_have_the_fields_of_the_contract_and_no_others() -> None:
    """A client keeps unknown fields, so that an invented field would go unnoticed."""
    service = a_service(100)
    (row,) = ask_json(service)["applications"]
    found = ask_json(service, f"{LIST}/{row['application_id']}")
    assert (row.keys(), found.keys()) == (row_of_list().keys(), APPLICATION.keys())
    assert found["last_updated_at"] == "1970-01-01T00:01:40Z"
    assert set(found["applicants"]) == set(found["income_calculations"])
    for applicant in found["applicants"].values():
        assert applicant.keys() == APPLICANT
        assert applicant["ssn"].startswith("666"), "which nobody has"
    assert all(document.keys() == DOCUMENT for document in ask_documents(service))
    paged = ask_documents(service, "pages=true")
    assert all(document.keys() == DOCUMENT | {"pages"} for document in paged)
    for query in ("pages=yes", "pages=True", "pages=", "pages=1", "page=true"):
        assert ask(service, f"{LIST}/{row['application_id']}/documents", query).status == 400


@pytest.mark.parametrize(
    "path",
    [
        *(f"{LIST}/{rest}" for rest in ("", "%2e%2e", "a/b", "a/documents/c", "app-0000000000")),
        *(f"{LIST}/app-0000000000/documents", "/v2/income/applications", "/documents/x"),
    ],
)
def test_unknown_paths_are_not_found(path: str) -> None:
    reply = ask(a_service(100), path)
    assert reply.status == 404
    assert msgspec.json.decode(reply.body)["error"] == "not_found"


def test_another_method_is_answered_with_the_right_one() -> None:
    service = a_service(100)
    posted = respond(service, evolve(token_request(service), path=LIST))
    assert (posted.status, posted.headers["Allow"]) == (405, "GET")
    got = ask(service, "/token")
    assert (got.status, got.headers["Allow"]) == (405, "POST")


def test_every_reply_is_dated_and_numbered() -> None:
    """Every reply carries service time, set off as asked, and a request id of its own."""
    service = a_service(100, clock_offset=60)
    replies = [ask(service), ask(service, "/nowhere"), ask(service, authorization="")]
    assert {reply.headers["Date"] for reply in replies} == {"Thu, 01 Jan 1970 00:17:40 GMT"}
    assert len({reply.headers["X-Request-Id"] for reply in replies}) == 3


# Who may ask


def test_credentials() -> None:
    """A scheme may be written in any case before several blanks; two are none, like a changed one.

    See RFC 9110, section 11.
    """
    service = a_service(100)
    client, user = (
        one.authorization().reveal().removeprefix("Basic ")
        for one in (service.oauth2, service.basic)
    )
    token = request_token(service, authorization=f"basic   {client}")
    for header in (f"Bearer  {token}", f"BEARER {token}", f"basic  {user}"):
        assert ask(service, authorization=header).status == 200
    for header in ("", " ", "Basic", "Digest x", f"Basic {user}, Basic {user}", "Basic \udcff"):
        reply = ask(service, authorization=header)
        assert (reply.status, "WWW-Authenticate" in reply.headers) == (401, True)
    for bad in ("", "a.b.c", "é", token[:-2], f"{token}x", token.replace(".", "..", 1)):
        reply = ask(service, authorization=f"Bearer {bad}")
        assert reply.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
    for passed, status in ((3599, 200), (1, 401)):
        service.world.advance_to(service.world.now + passed)
        assert ask(service, authorization=f"Bearer {token}").status == status


API_USER = a_service().basic.authorization().reveal()


@pytest.mark.parametrize(
    ("body", "headers", "status", "error"),
    [
        (b"", {}, 400, "invalid_request"),
        (b"\xff", {}, 400, "invalid_request"),
        (GRANT, {"content-type": "application/json"}, 400, "invalid_request"),
        (b"grant_type=password", {}, 400, "unsupported_grant_type"),
        (GRANT, {"authorization": ""}, 401, "invalid_client"),
        (GRANT, {"authorization": API_USER}, 401, "invalid_client"),
    ],
)
def test_bad_token_requests(body: bytes, headers: dict[str, str], status: int, error: str) -> None:
    """Wrong forms and grants are answered with 400, wrong credentials with 401."""
    service = a_service(100)
    reply = respond(service, token_request(service, body, **headers))
    assert (reply.status, msgspec.json.decode(reply.body)["error"]) == (status, error)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 200) for host in ("127.0.0.1:80", "localhost", "LocalHost:8080", "[::1]:80")),
        *((host, 421) for host in ("[::ffff:127.0.0.1]", "example.com", "10.0.0.1", "", "[")),
        *((host, 421) for host in ("localhost.example.com", "api.localhost:8080")),
        *((host, 421) for host in ("a@localhost", "localhost/a", "localhost?")),
    ],
)
def test_foreign_hosts(host: str, status: int) -> None:
    """A request for a host that is not this machine is refused."""
    assert ask(a_service(100), host=host).status == status


# The rule of the list call, against the second reading of the contract

NOW = 50
UPDATES = st.lists(st.integers(0, 60), max_size=40)
BOUND = st.none() | st.integers(-5, 65) | st.sampled_from([NOW - 1, NOW, NOW + 1])
SPAN_CLAMPS = {"start": "after", "end": "before"}
FUTURES = {"accept": "accept", "lower": "clamp", "refuse": "refuse"}
READINGS = st.builds(
    Rules,
    lower_closed=st.booleans(),
    upper_closed=st.booleans(),
    widest=st.none() | st.integers(1, 30),
    cut=st.sampled_from(sorted(SPAN_CLAMPS)),
    oldest=st.none() | st.integers(0, 40),
    future=st.sampled_from(sorted(FUTURES)),
    default_span=st.none() | st.integers(0, 40),
)


def rules_of(reading: Rules, order: Order = Order.ASCENDING) -> ServiceRules:
    """Return the emulator's rules for a reading."""
    return ServiceRules(
        lower_closed=reading.lower_closed,
        upper_closed=reading.upper_closed,
        order=order,
        max_span=reading.widest,
        span_clamp=SPAN_CLAMPS[reading.cut],
        oldest=reading.oldest,
        future=FUTURES[reading.future],
        default_span=reading.default_span,
    )


def read_again(world: World, reading: Rules, after: int | None, before: int | None) -> Outcome:
    """Answer for the same rows by the other rule, without a limit."""
    rows = {one: world.updated_at(one) for one in world.ids}
    query = Query(after=after, before=before, limit=len(rows) + 1)
    return list_rules(reading, rows, NOW, query, Random(0))


@settings(max_examples=100)
@given(st.data())
def test_both_readings_of_the_contract_agree(data: st.DataObject) -> None:
    """The same window is echoed, and of its rows as many are given, each once."""
    reading = data.draw(READINGS)
    after, before = data.draw(BOUND), data.draw(BOUND)
    limit = data.draw(st.integers(1, 50))
    rules = rules_of(reading, data.draw(st.sampled_from(Order)))
    world = World(data.draw(UPDATES), now=NOW, rules=rules)
    reply = list_reply(world, rules, after=after, before=before, limit=limit)
    whole = read_again(world, reading, after, before)
    assert isinstance(reply, Refused) is (whole == 400)
    if isinstance(reply, Refused) or not isinstance(whole, Page):
        return
    assert (reply.after, reply.before) == (whole.after, whole.before)
    assert len(reply.ids) == len(set(reply.ids)) == min(limit, len(whole.ids))
    assert set(reply.ids) <= set(whole.ids)


@given(times=UPDATES, reading=READINGS, after=BOUND, before=BOUND)
def test_truth_is_the_unlimited_page(
    times: list[int], reading: Rules, after: int | None, before: int | None
) -> None:
    """The truth about two bounds is what a question returns when nothing narrows it."""
    reading = evolve(reading, widest=None, default_span=None, future="accept")
    world = World(times, now=NOW, rules=rules_of(reading))
    whole = read_again(world, reading, after, before)
    assert isinstance(whole, Page)
    assert world.truth(after, before) == set(whole.ids)


def _page(world: World, limit: int) -> list[int]:
    reply = list_reply(world, world.rules, after=9, before=30, limit=limit)
    assert isinstance(reply, ListReply)
    return [world.updated_at(name) for name in reply.ids]


def test_orders() -> None:
    """Sorted pages begin at one end; shuffled ones repeat, random ones do not."""
    worlds = {order: World(range(40), now=NOW, rules=ServiceRules(order=order)) for order in Order}
    assert _page(worlds[Order.ASCENDING], 3) == [10, 11, 12]
    assert _page(worlds[Order.DESCENDING], 3) == [29, 28, 27]
    shuffled = _page(worlds[Order.SHUFFLED], 20)
    assert shuffled == _page(worlds[Order.SHUFFLED], 20)
    assert sorted(shuffled) == list(range(10, 30))
    assert shuffled not in (sorted(shuffled), sorted(shuffled, reverse=True))
    assert len({str(_page(worlds[Order.RANDOM], 5)) for _ in range(20)}) > 10
