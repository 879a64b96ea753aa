"""An amount that a column cannot hold exactly is an error, and never a rounded amount."""

import json
from decimal import Decimal

import pytest

from income_client.exporting.misfits import fits, misfit
from tests.support.export_records import known_record, record_of
from tests.support.payloads import APPLICATION


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


def test_a_year_beyond_64_bits_is_an_error() -> None:
    """JSON has such numbers, columns have not."""
    application = json.loads(json.dumps(APPLICATION))
    application["income_calculations"]["applicant1"]["incomes"][0]["year"] = 2**63
    found = misfit(record_of(application, None))
    assert found == "application app-1: a year of income is no integer of 64 bits"
