"""Texts accepted for a time, a length or an id, and lines of standard input."""

import json
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest
from cyclopts import CycloptsError

from income_client import (
    ApplicationDocuments,
    ConfigurationError,
    IncomeClient,
    IncomeClientError,
    from_json,
)
from income_client.cli import options
from income_client.cli.app import command_line
from income_client.cli.options import (
    Chosen,
    DocumentTypes,
    Moment,
    read_ids,
    read_moment,
    span_between,
)
from income_client.testing import LoopRunner
from tests.support.payloads import DOCUMENTS

PRESENT: Final = datetime(2026, 6, 30, 12)  # noqa: DTZ001 - the service's times carry no zone

# Times and lengths


@pytest.mark.parametrize(
    ("typed", "meant", "text"),
    [
        ("beginning", "1970-01-01T00:00:00", "beginning"),
        ("now", "2026-06-30T12:00:00", "now"),
        ("0d", "2026-06-30T12:00:00", "now"),
        ("90s", "2026-06-30T11:58:30", "90s"),
        ("5min", "2026-06-30T11:55:00", "5min"),
        ("12h", "2026-06-30T00:00:00", "12h"),
        ("7d", "2026-06-23T12:00:00", "1w"),
        ("2w", "2026-06-16T12:00:00", "2w"),
        ("20633d", "1970-01-02T12:00:00", "20633d"),
        ("2026-01-31", "2026-01-31T00:00:00", "2026-01-31T00:00:00"),
        ("2026-01-31T12:00:05Z", "2026-01-31T12:00:05", "2026-01-31T12:00:05"),
        ("2026-01-31T12:00:05+02:00", "2026-01-31T10:00:05", "2026-01-31T10:00:05"),
        ("2026-01-31T12:00:05.75", "2026-01-31T12:00:05.750000", "2026-01-31T12:00:05.750000"),
    ],
)
def test_a_time_is_a_word_a_span_or_iso_8601(typed: str, meant: str, text: str) -> None:
    """Spans go back from the service's present; zones are converted to UTC."""
    moment = read_moment(typed)
    assert (moment.seen_from(PRESENT).isoformat(), moment.text) == (meant, text)
    assert read_moment(moment.text) == moment


TIMES: Final = "2026-01-31, 2026-01-31T12:00:00, 7d, 12h, now or beginning"
NO_TIMES: Final = {
    TIMES: (
        "", "7", "d", "-7d", "7 d", "7y", "yesterday", "\u0667d", "NOW", "123456789d",
        "0001-01-01T00:00:00+05:00", "2026-01-31T12:00:00+04:60",
    ),
    "without a fraction: such as 90min for 1.5h": ("1.5h", "0,5d", "2.0min", "1.5m"),
    "write 3min for minutes; for months, count days, such as 30d": ("3m", "3M"),
}  # fmt: skip
"""Invalid texts of times, by the message about them."""


@pytest.mark.parametrize("said", NO_TIMES)
def test_minutes_are_not_taken_for_months(said: str) -> None:
    for text in NO_TIMES[said]:
        with pytest.raises(ValueError, match=re.escape(said)):
            read_moment(text)


@pytest.mark.parametrize("typed", ["2948w", "99999999w", "20635d"])
def test_no_time_is_before_the_beginning(typed: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{typed} reaches before 1970, .* write beginni"):
        Moment(back=read_moment(typed).back).seen_from(PRESENT)


@pytest.mark.parametrize(
    ("after", "before", "meant"),
    [
        (None, None, (None, None)),
        ("beginning", "beginning", ("1970-01-01T00:00:00", "1970-01-01T00:00:00")),
        ("7d", "1d", ("2026-06-23T12:00:00", "2026-06-29T12:00:00")),
        ("now", None, ("2026-06-30T12:00:00", None)),
        ("2026-06-30T12:00:01", None, "^2026-06-30T12:00:01 is in the future: it is 2026-06-30T12"),
        ("2026-06-02", "2026-06-01", "^--updated-after is later than --updated-before"),
        ("1d", "7d", "^--updated-after is later than --updated-before"),
        ("beginning", "2948w", "^2948w reaches before 1970"),
    ],
)
@pytest.mark.income_service(applications=0, time_flows=False)
def test_a_span_is_that_of_the_service_clock(
    after: str | None,
    before: str | None,
    meant: Any,
    income_client: IncomeClient,
    income_run: LoopRunner,
) -> None:
    """The span neither begins in the service's future nor ends before it begins."""
    typed = [None if text is None else read_moment(text) for text in (after, before)]
    if isinstance(meant, str):
        with pytest.raises(ConfigurationError, match=meant):
            income_run(span_between(income_client, *typed))
    else:
        span = income_run(span_between(income_client, *typed))
        bounds = (span.after, span.before)
        assert tuple(one and one.isoformat() for one in bounds) == meant


@pytest.mark.parametrize(
    ("typed", "seconds"),
    [("1", 1), ("90", 90), ("90s", 90), ("30min", 1800), ("2d", 172_800), *(
        (text, None) for text in ("0", "0s", "-1", "1.5h", "1m", "h", "", "1 h", "123456789")
    )],
)  # fmt: skip
def test_a_length_is_a_second_at_least(typed: str, seconds: int | None) -> None:
    line = ["audit", "held", f"--margin={typed}"]
    if seconds is None:
        with pytest.raises(CycloptsError, match="--margin"):
            command_line("audit").parse_args(line, print_error=False)
    else:
        assert command_line("audit").parse_args(line)[1].arguments["margin"] == seconds


# Ids on standard input


def read(content: bytes, run: LoopRunner, folder: Path) -> list[str]:
    """Return the ids in a file that standard input is read from."""
    (folder / "input").write_bytes(content)
    with (folder / "input").open("rb") as file:

        async def all_of_them() -> list[str]:
            return [one async for one in read_ids(file.fileno())]

        return run(all_of_them())


def test_an_id_is_alone_in_its_line_or_in_json(income_run: LoopRunner, tmp_path: Path) -> None:
    """Lines are those that applications, application and poll print; a line may be long."""
    objects: list[Any] = [
        {"application_id": "three", "application_reference_id": "LOAN-1"},
        {"padding": "x" * 200_000, "application_id": "four"},
        {"application": {"application_id": "five"}, "documents": {}},
    ]
    lines = "\ufeffone\r\n\r\n\n  two \none\n" + "\n".join(map(json.dumps, objects))
    found = read(lines.encode(), income_run, tmp_path)
    assert found == ["one", "two", "one", "three", "four", "five"]
    assert read("\ufeff\n\n".encode(), income_run, tmp_path) == []
    longest = b"x" * 2_048
    assert read(longest, income_run, tmp_path) == [longest.decode()]


@pytest.mark.parametrize(
    "line",
    [
        b"{}", b'{"application_id": 7}', b'{"application_id": ""}', b"{", b'{"a":' + b"[" * 5000,
        b'{"application": 1}', b"CANARY\xff", b'{"ssn":"CANARY"}', b"app-1  CANARY",
        b"app-1,CANARY", b'"CANARY', b"[", b"]", b"}", b"CANARY" * 400,
        b'["CANARY"]', b'""', b'"app-1","CANARY"',
    ],
    ids=lambda line: ascii(line)[:20],
)  # fmt: skip
def test_a_line_without_an_id_is_named_and_not_shown(
    line: bytes, income_run: LoopRunner, tmp_path: Path
) -> None:
    """The line may be somebody's record."""
    said = r"^line 3 of standard input .* income-client applications -q"
    with pytest.raises(IncomeClientError, match=said) as caught:
        read(b"one\n\n" + line + b"\n", income_run, tmp_path)
    assert "CANARY" not in str(caught.value)


def test_a_line_has_an_end(
    income_run: LoopRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "LONGEST_LINE", 1_200)
    with pytest.raises(IncomeClientError, match="standard input has a line of over 1,200 bytes"):
        read(b"CANARY" * 201, income_run, tmp_path)
    with pytest.raises(IncomeClientError, match=r"^standard input cannot be read: is a directory"):
        income_run(anext(read_ids(os.open(tmp_path, os.O_RDONLY))))


def test_each_id_is_chosen_once(income_run: LoopRunner, income_client: IncomeClient) -> None:
    """Ids from arguments come first, and the number of ids is reported before the last one."""
    known: list[tuple[int, bool]] = []

    async def chosen(*named: str) -> list[str]:
        known.clear()
        return [
            one async for one in Chosen(named, on_known=lambda *so_far: known.append(so_far)).ids()
        ]

    assert income_run(chosen("b", "a", "b")) == ["b", "a"]
    assert known == [(2, True), (2, True)]

    async def walked() -> list[str]:
        known.clear()
        walk = income_client.list_applications()
        some = Chosen(("app",), walk, on_known=lambda *so_far: known.append(so_far))
        return [one async for one in some.ids()]

    first, *others = income_run(walked())
    assert (first, len(others)) == ("app", 100)
    assert known == [*((count, False) for count in range(1, 102)), (101, True)]


# Types of documents


@pytest.mark.parametrize(
    ("wanted", "missing", "are_known"),
    [
        ((), None, True),
        (("paystub",), None, True),
        (("w2", "paystub"), "no document of type w2; there are paystub, unknown_form", False),
        (("b", "a"), "no document of type a, b; there are paystub, unknown_form", False),
    ],
)
def test_types_that_no_document_has_are_named(
    wanted: tuple[str, ...], missing: str | None, *, are_known: bool
) -> None:
    """A type of the contract is known; it is not known of any where nothing was read."""
    there = {"paystub", "unknown_form"}
    types = DocumentTypes(wanted)
    assert types.are_known
    entries = types.chosen(from_json(ApplicationDocuments, json.dumps(DOCUMENTS).encode()))
    assert {one.document_type for one in entries} == (there & {*wanted} if wanted else there)
    assert (types.missing, types.are_known) == (missing, are_known)
    types = DocumentTypes(("paystub",))
    bare = json.dumps({**DOCUMENTS, "documents": {}}).encode()
    types.chosen(from_json(ApplicationDocuments, bare))
    assert (types.missing, types.are_known) == ("no document of type paystub; there are none", True)
    assert DocumentTypes(("x",)).missing == "no document of type x; there are none"
