"""Promise 15: bodies are bounded and decoded strictly; unknown fields pass, values stay private."""

import contextlib
import json
import re
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar, cast

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from income_client import (
    Application,
    ApplicationDocuments,
    ApplicationPage,
    ApplicationRecord,
    ApplicationSummary,
    ConfigurationError,
    DecodeError,
    UnexpectedResponseError,
    from_json,
    to_json,
)
from income_client.records import AmountPair
from income_client.wire.codec import parse
from income_client.wire.rows import MalformedRow, decode_rows
from tests.support import strategies
from tests.support.canaries import CANARY, held_by
from tests.support.clients import BASIC, running
from tests.support.listing import BASE, ListService, serving
from tests.support.payloads import (
    APPLICATION,
    DOCUMENTS,
    PAGE,
    changed,
    known_record,
    row_of_list,
    text_of,
    tree_of,
)
from tests.support.server import in_turn, json_reply, reply
from tests.support.walks import (
    LIMITS,
    MALFORMED,
    WALKERS,
    WITHOUT_ID,
    collect,
    listings,
    read_on,
    walk,
)

T = TypeVar("T")
ONE_OF_EACH = {kind: several[-1:] for kind, several in DOCUMENTS["documents"].items()}
REPLIES: list[tuple[type[Any], dict[str, Any]]] = [
    (ApplicationPage, PAGE),
    (Application, APPLICATION),
    (ApplicationDocuments, {**DOCUMENTS, "documents": ONE_OF_EACH}),
]


def decode(cls: type[T], text: bytes) -> T | DecodeError:
    """Read a record, or return the error without the frames of this test."""
    try:
        return from_json(cls, text)
    except DecodeError as error:
        found = error.with_traceback(None)
    assert found.__cause__ is found.__context__ is None
    return found


def _faults(cls: type[Any], payload: object) -> dict[str, str]:
    error = decode(cls, text_of(payload))
    assert isinstance(error, DecodeError)
    return {fault.path: fault.reason for fault in error.faults}


# What is read goes back as it came


@given(strategies.replies())
def test_what_is_read_survives_a_round_trip(reply: tuple[type[Any], dict[str, Any]]) -> None:
    """Unknown fields and explicit null for pages included."""
    cls, payload = reply
    record = decode(cls, text_of(payload))
    assert isinstance(record, cls), record
    assert text_of(tree_of(to_json(record))) == text_of(payload)


def test_a_record_is_an_object_of_its_two_parts() -> None:
    """Or of its application and null, on one line; a text is read like bytes, and as strictly."""
    whole = known_record()
    for record, documents in ((whole, DOCUMENTS), (attrs.evolve(whole, documents=None), None)):
        line = to_json(record)
        assert b"\n" not in line
        assert json.loads(line) == {"application": APPLICATION, "documents": documents}
        assert from_json(ApplicationRecord, line) == record
        assert from_json(ApplicationRecord, line.decode() + "\n") == record
    for text in ("{}", '"\ud800"', b"{", b'{"application":1}'):
        with pytest.raises(DecodeError):
            from_json(ApplicationRecord, text)


def test_values_have_their_own_types() -> None:
    """A time with another zone is written in UTC."""
    application = from_json(Application, text_of(APPLICATION))
    assert application.last_updated_at == datetime(2024, 1, 31, 10, tzinfo=UTC)
    assert application.application_date == datetime(2024, 1, 5, 9, 30)  # noqa: DTZ001
    assert application.applicants["applicant1"].date_of_birth == date(1980, 2, 29)
    (income,) = application.income_calculations["applicant1"].incomes
    assert income.income_sources[0].calculated_income_amount == Decimal("51234.56")
    assert application.data_sources.structured_data == ({"kind": "payroll", "values": [1, 2.5]},)
    moved = attrs.evolve(application, last_updated_at=MOMENT)
    assert json.loads(to_json(moved)) == APPLICATION


# Wrong values and missing fields

WRONG: tuple[Any, ...] = (
    *(None, True, 41968273, 4196.8273, CANARY, [CANARY]),
    {"Canary key": CANARY, "ssn": 41968273},
)
NULLABLE = {"end_date", "street_2", "middle_name", "suffix", "pages"}
UNTYPED = {"structured_data", "earnings", "deductions", "taxes", "pages"}


def _leaves(value: Any, path: str = "$") -> Iterator[tuple[Any, Any, str]]:
    """Yield container, key and path of every value that the contract types."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        here = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}"
        if key == "pages" or here.startswith("$.documents.unknown_form[0].extracted_data."):
            continue
        yield value, key, here
        if isinstance(item, dict | list) and key not in UNTYPED:
            yield from _leaves(item, here)


def _is_acceptable(key: Any, old: Any, new: Any) -> bool:
    """Return whether the contract allows the new value in place of the old one."""
    match old:
        case _ if key in NULLABLE:
            fits = new is None or (new == CANARY and key != "end_date")
        case list():
            fits = isinstance(new, list) and (key in UNTYPED or str(key).endswith("_ids"))
        case dict():
            fits = isinstance(new, dict) and key == "extracted_data" and "wages" in old
        case bool():
            fits = new is True
        case int() | float() | "":
            fits = type(new) is int or (type(new) is float and key != "year")
        case _:
            fits = new == CANARY and not re.match(r"\d{4}-\d\d-\d\d", old)
    return fits


@pytest.mark.parametrize(
    ("cls", "sample"), REPLIES, ids=lambda value: getattr(value, "__name__", "")
)
def test_every_wrong_or_missing_value_is_refused_with_its_path_only(
    cls: type[Any], sample: dict[str, Any]
) -> None:
    """A value of the wrong kind raises DecodeError with its path and without the value."""
    tried = 0
    payload = json.loads(json.dumps(sample))
    for container, key, path in _leaves(payload):
        old = container[key]
        for new in WRONG:
            if _is_acceptable(key, old, new):
                continue
            tried += 1
            container[key] = new
            error = decode(cls, text_of(payload))
            assert isinstance(error, DecodeError), (path, type(new))
            assert not error.retryable
            found = [fault.path for fault in error.faults]
            assert all(one.startswith(path) for one in found), (path, found)
            assert path in found or isinstance(new, dict | list), (path, found)
            for canary in ("Canary", "41968273", "4196.8273"):
                assert canary not in held_by(error), path
        if isinstance(container, dict) and key not in {"applicant1", "paystub", "unknown_form"}:
            del container[key]
            assert _faults(cls, payload) == {path: "missing"}
        container[key] = old
    assert tried > 20


def test_one_error_names_every_fault() -> None:
    """Invalid unknown fields included."""
    payload = json.loads(json.dumps(APPLICATION))
    payload["application_id"] = None
    payload["new_field"] = payload["ada@example.org"] = json.loads("[" * 101 + "]" * 101)
    payload["applicants"]["applicant1"]["ssn"] = 112222
    payload["applicants"]["ada@example.org"] = "Ada"
    del payload["data_sources"]["image_files"][0]["file_id"]
    assert _faults(Application, payload) == {
        "$.application_id": "expected a string, found null",
        "$.new_field": "nested too deeply",
        "$.*": "nested too deeply",
        "$.applicants.applicant1.ssn": "expected a string, found a number",
        "$.applicants.*": "expected an object, found a string",
        "$.data_sources.image_files[0].file_id": "missing",
    }


# What JSON cannot carry

ROW = from_json(ApplicationSummary, text_of(row_of_list()))


MOMENT = datetime.fromisoformat("2024-01-31T05:00:00-05:00")


@pytest.mark.parametrize(
    "record",
    [
        attrs.evolve(known_record().application, last_updated_at=MOMENT.replace(tzinfo=None)),
        attrs.evolve(ROW, application_date=datetime(2024, 1, 5, tzinfo=UTC)),
        attrs.evolve(ROW, application_id="\ud800"),
        attrs.evolve(ROW, extra={"x": object()}),
        AmountPair(current=Decimal("NaN"), ytd=None),
        attrs.evolve(ROW, extra={"x": [Decimal("NaN")]}),
        attrs.evolve(ROW, extra={"x": {"y": float("inf")}}),
        AmountPair(current=Decimal("Infinity"), ytd=None),
        # A reader would refuse these.
        *(
            AmountPair(current=amount, ytd=None)
            for amount in cast("Any", (Decimal("1" * 41), Decimal("1E+50"), 10**41, True, "7"))
        ),
        attrs.evolve(ROW, application_id=cast("Any", 5)),
        attrs.evolve(ROW, application_id=cast("Any", None)),
    ],
)
def test_what_json_cannot_carry_exactly_is_refused(record: object) -> None:
    """The record was made by hand."""
    with pytest.raises(ConfigurationError, match="cannot carry") as caught:
        to_json(record)
    assert caught.value.__context__ is None


# Hostile and unusual text

PAGE_TEXT = json.dumps(PAGE)
ROW_END = '"application_date": "2024-01-05T09:30:00"'


def _page_with(member: str) -> bytes:
    return PAGE_TEXT.replace(ROW_END, f"{ROW_END}, {member}").encode()


@pytest.mark.parametrize(
    ("body", "retryable"),
    [
        *((body, True) for body in (b"", b" ", b"<html>log in</html>")),
        *((body, False) for body in (b"null", b"[]", b'"text"', b"7", b"{}")),
        (PAGE_TEXT.encode()[:-1], True),
        (PAGE_TEXT.encode() + b"}", True),
        (PAGE_TEXT.encode() + b"\x00", True),
        (PAGE_TEXT.encode("utf-16"), True),
        (PAGE_TEXT.encode().replace(b"loan-1", b"loan-\xff"), True),
        (PAGE_TEXT.encode().replace(b"loan-1", b"loan-\xed\xa0\x80"), True),
        (PAGE_TEXT.encode().replace(b"loan-1", b"loan-\\ud800"), False),
        (PAGE_TEXT.encode().replace(b"loan-1", b"loan-\\ud800")[:-1], True),
        (b"[" * 2000 + b"]" * 2000, False),
        (_page_with('"x": NaN'), True),
        (_page_with('"x": -Infinity'), True),
        (b"[" * 300 + b"]" * 300, False),
        (_page_with('"x": ' + "1" * 5000), False),
        (_page_with('"x": 1e999999999999999999999'), False),
        (_page_with('"x": ' + "[" * 101 + "]" * 101), False),
        (_page_with('"x": ' + '{"y":' * 600 + "1" + "}" * 600), False),
    ],
)
def test_hostile_text_is_a_decode_error_and_nothing_else(body: bytes, retryable: bool) -> None:
    """Only incomplete JSON is retryable."""
    error = decode(ApplicationPage, body)
    assert isinstance(error, DecodeError)
    assert error.retryable is retryable
    assert "loan-1" not in held_by(error)


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + PAGE_TEXT.encode(),
        _page_with('"x": ' + "[" * 100 + "]" * 100),
        _page_with('"x": 18446744073709551616, "y": -1' + "0" * 30),
        _page_with('"x": 1e300, "y": [1e400, -1e-999, 0.' + "1" * 99 + "]"),
        _page_with('"x": 1, "x": 2'),
        _page_with('"x": "\\u003a", "y:\\u003A": "::"'),
        _page_with('"x": "\\\\u003a"'),
        b" " + PAGE_TEXT.replace(" ", "\n").encode() + b" ",
    ],
)
def test_unusual_but_valid_text_is_read(body: bytes) -> None:
    assert isinstance(decode(ApplicationPage, body), ApplicationPage)


def test_an_unusual_number_is_kept_with_its_digits() -> None:
    """In untyped fields a number of any size is a Decimal that is written back unchanged."""
    page = from_json(ApplicationPage, _page_with('"x": [1e400], "y": 1.50'))
    extra = page.applications[0].extra
    assert [type(one) for one in (extra["x"][0], extra["y"])] == [Decimal, Decimal]
    assert b'"x":[1E+400],"y":1.50' in to_json(page)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\u03ae1-. ', max_size=40).map(str.encode))
def test_any_bytes_are_a_record_or_a_decode_error(body: bytes) -> None:
    assert isinstance(decode(ApplicationSummary, body), ApplicationSummary | DecodeError)


# Amounts

BEYOND = "a number of more than 40 digits, or an exponent beyond 40"
AMOUNTS = (
    "1234.56", "0.1", "100", "100.0", "0", "-12.5", "1234.50", "99999999999999.99", "-0.00",
    "1" + "0" * 39, "0." + "1" * 40, "999999999999999", "12345678901234.5",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        *zip(AMOUNTS, AMOUNTS, strict=True),
        *[("1e3", "1E+3"), ("1e40", "1E+40"), ("1e-40", "1E-40"), ("0.0000001", "1E-7")],
    ],
)
def test_amounts_are_the_digits_that_were_sent(text: str, amount: str) -> None:
    pair = decode(AmountPair, f'{{"current": {text}, "ytd": ""}}'.encode())
    assert isinstance(pair, AmountPair)
    assert pair.ytd is None
    assert str(pair.current) == amount
    assert to_json(pair) == f'{{"current":{amount},"ytd":""}}'.encode()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *((text, BEYOND) for text in ("1" + "0" * 40, "0." + "1" * 41, "1e41", "1e-41", "-1e300")),
        *((text, "expected a number, found a string") for text in ('"12"', '" "', '"nan"')),
        ("null", "expected a number, found null"),
        ("true", "expected a number, found a boolean"),
        ("[]", "expected a number, found an array"),
    ],
)
def test_an_inexact_amount_is_refused(text: str, reason: str) -> None:
    error = decode(AmountPair, f'{{"current": {text}, "ytd": 1}}'.encode())
    assert isinstance(error, DecodeError)
    assert [(fault.path, fault.reason) for fault in error.faults] == [("$.current", reason)]


def test_the_empty_string_is_an_absent_amount_only_in_a_pair() -> None:
    path = ("documents", "paystub", 0, "extracted_data", "hours_worked")
    assert _faults(ApplicationDocuments, changed(DOCUMENTS, path, "")) == {
        "$.documents.paystub[0].extracted_data.hours_worked": "expected a number, found a string"
    }


# Over a connection


@pytest.mark.parametrize("coding", ["told", "identity", "gzip", "deflate"])
async def test_a_body_beyond_the_limit_is_not_read_to_its_end(coding: str) -> None:
    """Reading takes no more memory than the limit, with and without a length, compressed or not."""
    bits = {"gzip": 31, "deflate": 15}.get(coding)
    body = b" " * 8 * 2**20
    if bits:
        packer = zlib.compressobj(wbits=bits)
        body = packer.compress(body) + packer.flush()

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 2**16):
            piece = body[start : start + 2**16]
            yield b"%x\r\n%b\r\n" % (len(piece), piece)
        yield b"0\r\n\r\n"

    fields: dict[str, Any] = {"Content_Length": None, "Transfer_Encoding": "chunked"}
    if bits:
        fields["Content_Encoding"] = coding
    out = reply(body=b"", slow=chunks, **fields) if coding != "told" else reply(body=body)
    async with running(in_turn(out), auth=BASIC, most_bytes=2**20) as (server, client):
        tracemalloc.start()
        try:
            with pytest.raises(UnexpectedResponseError, match="larger than 1048576") as caught:
                await client.get_application("app-1")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (caught.value.status, caught.value.retryable) == (200, False)
    assert len(server.requests) == 1
    assert coding == "told" or peak < 6 * 2**20


async def test_a_body_of_just_the_limit_is_read() -> None:
    out = json_reply(APPLICATION)
    limit = len(out.body)
    async with running(in_turn(out), auth=BASIC, most_bytes=limit) as (_, client):
        assert (await client.get_application("app-1")).application_id == "app-1"


# Rows that are malformed


@pytest.mark.parametrize("value", [b"[]", b"{}", b"1", b"1.5", b'""'])
def test_a_text_of_too_many_values_is_refused(value: bytes) -> None:
    """Each takes a hundred bytes of memory, and all of them the event loop's time."""
    few, many = (b'{"a": [%b]}' % b",".join([value] * count) for count in (120_000, 600_000))
    parse(few)
    for read in (parse, partial(from_json, Application), partial(from_json, ApplicationPage)):
        with pytest.raises(DecodeError, match="more than 250,000 values") as caught:
            read(many)
        assert not caught.value.retryable


def test_commas_in_texts_are_no_values() -> None:
    """Unless a text consists of little else."""
    assert parse(b'{"a": "%b"}' % (b"one, two and three; " * 100_000)) is not None


@pytest.mark.parametrize(("count", "is_read"), [(1_000, True), (1_001, False)])
def test_a_page_has_a_thousand_malformed_rows_at_most(count: int, *, is_read: bool) -> None:
    """An error for each of many more takes minutes; the page itself is malformed then."""
    body = json.dumps({**PAGE, "applications": [{}] * count + PAGE["applications"]}).encode()
    page = decode_rows(body, keep_extra=True)
    assert (page is not None) is is_read
    if page is not None:
        assert len(page.applications) == count + len(PAGE["applications"])


def test_bytes_of_half_a_character_spoil_their_row_only() -> None:
    """Some services write such bytes, although they are not UTF-8; others spoil the page."""
    rows = [row_of_list(), row_of_list("app-2", application_reference_id="loan-2")]
    body = text_of({**PAGE, "applications": rows}).replace(b"loan-2", b"loan-\xed\xa0\x80")
    page = decode_rows(body, keep_extra=True)
    assert page is not None
    assert [isinstance(row, MalformedRow) for row in page.applications] == [False, True]
    assert [row.application_id for row in page.applications] == ["app-1", "app-2"]
    assert decode_rows(body.replace(b"\xed\xa0\x80", b"\xff"), keep_extra=True) is None
    assert decode_rows(body[:-1], keep_extra=True) is None
    assert decode_rows(b"[]", keep_extra=True) is None


def test_an_error_names_a_thousand_halves_of_characters_at_most() -> None:
    """A reply that is made to be large makes no large error."""
    with pytest.raises(DecodeError) as caught:
        parse(b"[" + b",".join([b'"\\ud800"'] * 1500) + b"]")
    assert len(caught.value.faults) == 1000
    assert caught.value.faults[999].path == "$[999]"


@settings(max_examples=settings().max_examples // 2)  # each is three walks
@given(data=st.data(), limit=LIMITS, walkers=WALKERS, is_open=st.booleans())
async def test_malformed_rows_hide_no_other_row_of_a_walk(
    data: st.DataObject, limit: int, walkers: int, is_open: bool
) -> None:
    """Wherever they are, each is raised once, and every other row is yielded once.

    Also by a walk that is resumed from its checkpoint: the other rows are complete.
    """
    fixed: dict[str, Any] = {"oldest": None, "widest": None, "future": "accept"}
    service = data.draw(listings(ListService, limit, **fixed))
    last = service.now
    any_kind = dict.fromkeys(service.rows, st.sampled_from(list(MALFORMED)))
    kinds = data.draw(st.fixed_dictionaries({}, optional=any_kind), "malformed")
    service.malformed = {key: MALFORMED[kind](key) for key, kind in kinds.items()}
    options: dict[str, Any] = {"limit": limit, "concurrency": walkers}
    span = BASE - 1, None if is_open else last
    taken: list[str] = []
    async with serving(service) as client:
        paginator = walk(client, *span, **options)
        checkpoint, held = paginator.checkpoint, 0
        for _ in range(data.draw(st.integers(0, len(kinds)), "errors before the checkpoint")):
            with contextlib.suppress(DecodeError):
                await collect(paginator, taken)
                break
            checkpoint, held = paginator.checkpoint, len(taken)
        resumed = client.list_applications(resume=checkpoint, **options)
        again, _ = await read_on(resumed, most=len(kinds))
        found, errors = await read_on(walk(client, *span, **options), most=len(kinds))
    listed = service.truth(BASE - 1, last + is_open)
    assert len(found) == len(set(found))
    assert set(found) == listed - kinds.keys()
    assert {*taken[:held], *again} == set(found)
    with_ids = {key for key in listed & kinds.keys() if kinds[key] not in WITHOUT_ID}
    assert sorted(error.subject for error in errors if error.subject) == sorted(with_ids)
    assert len(errors) == len(listed & kinds.keys())
    assert not any(error.retryable or "ref-" in held_by(error) for error in errors)
