"""An amount that a column cannot hold exactly is an error, and never a rounded amount."""

import json
import traceback
from decimal import Decimal

import pytest

from income_client import ConfigurationError, to_arrow
from income_client.exporting.misfits import fits, misfit
from income_client.exporting.tables import AT_A_TIME
from tests.exporting.records_at_play import known_record, record_of
from tests.payloads import APPLICATION, DOCUMENTS


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
    seen = ""
    try:
        to_arrow(records)
    except ConfigurationError as error:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if (
                "/exporting/" in frame.f_code.co_filename
                and "tests" not in frame.f_code.co_filename
            ):
                seen += repr(frame.f_locals)
    assert "records" in seen
    for value in ("Ada", "51234", "Invented", "7.25"):
        assert value not in seen


def test_a_year_beyond_64_bits_is_an_error() -> None:
    """JSON has such numbers, columns have not."""
    application = json.loads(json.dumps(APPLICATION))
    application["income_calculations"]["applicant1"]["incomes"][0]["year"] = 2**63
    assert "a year" in (misfit(record_of(application, None)) or "")
