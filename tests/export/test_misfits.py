"""An amount that a column cannot hold exactly is an error, and never a rounded amount."""

import json
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any, cast

import pytest
from attrs import evolve

from income_client import ApplicationRecord, ConfigurationError, to_arrow, to_pandas, to_polars
from income_client.exporting.misfits import fits, misfit
from income_client.exporting.rows import ROWS
from income_client.exporting.tables import AT_A_TIME
from tests.support.export_records import known_record, record_of
from tests.support.leaks import package_frames
from tests.support.payloads import APPLICATION, DOCUMENTS


@pytest.mark.parametrize(
    "text",
    ["0", "-0.0", "0.1", "1E+3", "999999999999999", "1E-18", "0.30000000000000004", "1.50E-17"],
)
def test_amounts_of_18_places_fit(text: str) -> None:
    """So do all with 20 digits before the point."""
    assert fits(Decimal(text))


@pytest.mark.parametrize("text", ["1E-19", "1.5E-18", "1E+20", "NaN", "Infinity", "-1E-30"])
def test_others_do_not(text: str) -> None:
    """Nothing is rounded to make it fit."""
    assert not fits(Decimal(text))


def test_what_is_absent_fits() -> None:
    """It takes no digits."""
    assert fits(None)
    assert misfit(known_record()) is None


def test_the_error_names_the_place_and_not_the_amount() -> None:
    """Which document it is about is told, what it says is not."""
    documents = json.loads(json.dumps(DOCUMENTS))
    documents["documents"]["paystub"][0]["extracted_data"]["net_pay"]["ytd"] = 7.25e-19
    record = record_of(APPLICATION, documents)
    with pytest.raises(
        ConfigurationError, match=r"app-1: net_pay of document \S+ has more"
    ) as caught:
        to_arrow([record])
    assert "7.25" not in str(caught.value)


def test_whoever_is_shown_the_frames_sees_nothing() -> None:
    """Crash reporters send the variables of every frame; none of ours holds a value."""
    documents = json.loads(json.dumps(DOCUMENTS))
    documents["documents"]["paystub"][0]["extracted_data"]["net_pay"]["ytd"] = 7.25e-19
    records = [known_record()] * AT_A_TIME + [record_of(APPLICATION, documents)]
    with pytest.raises(ConfigurationError) as caught:
        to_arrow(records)
    seen = repr([frame.locals for frame in package_frames(caught.value)])
    assert "records" in seen
    for value in ("Ada", "51234", "Invented", "7.25"):
        assert value not in seen


def test_a_year_beyond_64_bits_is_an_error() -> None:
    """JSON has such numbers, columns have not."""
    application = json.loads(json.dumps(APPLICATION))
    application["income_calculations"]["applicant1"]["incomes"][0]["year"] = 2**63
    found = misfit(record_of(application, None))
    assert found == "application app-1: a year of income is no integer of 64 bits"


async def _awaited() -> AsyncIterator[ApplicationRecord]:
    yield known_record()


@pytest.mark.parametrize("function", [to_arrow, to_polars, to_pandas])
@pytest.mark.parametrize(
    ("records", "message"),
    [
        (_awaited(), "gathered first"),
        (known_record(), "not ApplicationRecord"),
        (None, "not NoneType"),
        ([known_record(), known_record().application], "not of Application$"),
    ],
)
def test_what_is_no_records_is_refused(function: Any, records: Any, message: str) -> None:
    """The error says what to give instead."""
    with pytest.raises(ConfigurationError, match=message):
        function(records)


def test_a_record_that_no_reply_can_be_is_named() -> None:
    """One that was made by hand from other types is found among many."""
    wrong: Any = 7
    records = [
        evolve(
            known_record(),
            application=evolve(known_record().application, application_id=f"app-{n}"),
        )
        for n in range(5)
    ]
    application = evolve(records[3].application, application_reference_id=wrong)
    records[3] = evolve(records[3], application=application)
    with pytest.raises(ConfigurationError, match="application app-3: holds what"):
        to_arrow(records)


def test_a_fault_of_the_program_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the library says of values becomes an error about a record."""

    def broken(_: ApplicationRecord) -> Iterator[Any]:
        raise LookupError

    monkeypatch.setitem(cast("dict[str, Any]", ROWS), "documents", broken)
    with pytest.raises(LookupError):
        to_arrow([known_record()])
