"""Amounts: the digits that were sent, exact in both directions."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.errors import DecodeError
from income_client.protocol.wire import decode, to_json
from income_client.records import AmountPair, ApplicationDocuments
from tests.support.payloads import DOCUMENTS


def _faults(cls: type[Any], payload: object) -> dict[str, str]:
    error = decode(cls, json.dumps(payload).encode())
    assert isinstance(error, DecodeError)
    return {fault.path: fault.reason for fault in error.faults}


BEYOND = "a number of more than 40 digits, or an exponent beyond 40"


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1234.56", "1234.56"),
        ("0.1", "0.1"),
        ("100", "100"),
        ("100.0", "100.0"),
        ("0", "0"),
        ("-12.5", "-12.5"),
        ("1e3", "1E+3"),
        ("1234.50", "1234.50"),
        ("99999999999999.99", "99999999999999.99"),
        ("-0.00", "-0.00"),
        ("1" + "0" * 39, "1" + "0" * 39),
        ("0." + "1" * 40, "0." + "1" * 40),
        ("1e40", "1E+40"),
        ("1e-40", "1E-40"),
        ("0.0000001", "1E-7"),
        ("999999999999999", "999999999999999"),
        ("12345678901234.5", "12345678901234.5"),
    ],
)
def test_amounts_are_the_digits_that_were_sent(text: str, amount: str) -> None:
    """A number becomes the decimal of its digits and goes back as a number of its kind."""
    pair = decode(AmountPair, f'{{"current": {text}, "ytd": ""}}'.encode())
    assert isinstance(pair, AmountPair)
    assert pair.ytd is None
    assert str(pair.current) == amount
    assert to_json(pair) == f'{{"current":{amount},"ytd":""}}'.encode()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1" + "0" * 40, BEYOND),
        ("0." + "1" * 41, BEYOND),
        ("1e41", BEYOND),
        ("1e-41", BEYOND),
        ("-1e300", BEYOND),
        ("null", "expected a number, found null"),
        ("true", "expected a number, found a boolean"),
        ('"12"', "expected a number, found a string"),
        ('" "', "expected a number, found a string"),
        ('"nan"', "expected a number, found a string"),
        ("[]", "expected a number, found an array"),
    ],
)
def test_what_is_no_exact_amount_is_refused(text: str, reason: str) -> None:
    """An amount beyond the exact digits, or of any other kind, is a fault."""
    error = decode(AmountPair, f'{{"current": {text}, "ytd": 1}}'.encode())
    assert isinstance(error, DecodeError)
    assert [(fault.path, fault.reason) for fault in error.faults] == [("$.current", reason)]


@given(st.decimals(-(10**12), 10**12, places=2))
def test_cents_are_exact(amount: Decimal) -> None:
    """Every amount in cents survives the way to JSON and back as the same number."""
    pair = AmountPair(current=amount, ytd=None)
    assert decode(AmountPair, to_json(pair)) == pair


def test_the_empty_string_is_an_absent_amount_only_in_a_pair() -> None:
    """Elsewhere the contract has a number, and an empty string is a fault."""
    payload = json.loads(json.dumps(DOCUMENTS))
    payload["documents"]["paystub"][0]["extracted_data"]["hours_worked"] = ""
    path = "$.documents.paystub[0].extracted_data.hours_worked"
    assert _faults(ApplicationDocuments, payload) == {path: "expected a number, found a string"}
