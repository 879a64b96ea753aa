"""Whole payloads of the service as JSON-able values, for property tests."""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from income_client.records import Application, ApplicationDocuments, ApplicationPage

Payload = dict[str, Any]

_MONEY_FIELDS = (
    "regular_pay", "gross_pay", "overtime_pay", "garnishments", "loans401_k", "bonus_pay",
    "commission_pay", "tips_pay", "sick_pay", "vacation_pay", "net_pay",
)  # fmt: skip

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["a:b", "\\u003a", '":{"', "\u003a", "\x7f\x00", "Ünï"]
)


def _fraction(sign: int, digits: int, exponent: int) -> Decimal:
    # Without a point or an exponent, a number is an integer in JSON.
    return Decimal((sign, tuple(map(int, str(digits))), exponent or -1))


def _decimals(digits: int, exponents: int) -> st.SearchStrategy[Decimal]:
    sign, figures = st.integers(0, 1), st.integers(1, 10**digits - 1)
    return st.builds(_fraction, sign, figures, st.integers(-exponents, exponents))


numbers = (
    st.integers(-(10**40) + 1, 10**40 - 1)
    | st.decimals(-(10**9), 10**9, places=2)
    | _decimals(15, 20)
)
times = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(datetime.isoformat)  # noqa: DTZ001
utc_times = times.map(lambda text: text + "Z")
days = st.dates(date(1, 1, 1)).map(date.isoformat)

_text_or_null = st.none() | texts
_plain = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts
untyped = st.recursive(
    _plain | _decimals(25, 600),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
unknown_fields = st.dictionaries(
    st.sampled_from(["extra", "extracted_extra", "new field", "x:y", ""]), untyped, max_size=2
)


def _object(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Payload]:
    known = st.fixed_dictionaries(fields)
    return st.builds(lambda more, own: {**more, **own}, st.just({}) | unknown_fields, known)


def _texts(*names: str) -> dict[str, st.SearchStrategy[str]]:
    return dict.fromkeys(names, texts)


def _some(items: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[list[Any]]:
    return st.lists(items, max_size=most)


def _by_slot(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Payload]:
    return st.dictionaries(st.sampled_from(["applicant1", "applicant2"]), items, max_size=2)


def pages() -> st.SearchStrategy[Payload]:
    """Replies of the list call."""
    summary = _object(application_id=texts, application_reference_id=texts, application_date=times)
    return _object(updated_after=times, updated_before=times, applications=_some(summary, 4))


def applications() -> st.SearchStrategy[Payload]:
    """Replies with one application."""
    return _object(
        application_id=texts,
        last_updated_at=utc_times,
        application_reference_id=texts,
        application_date=times,
        applicants=_by_slot(_applicants()),
        income_calculations=_by_slot(_calculations()),
        data_sources=_object(
            image_files=_some(_object(file_id=texts, file_reference_id=texts)),
            structured_data=_some(untyped),
        ),
    )


def replies(
    classes: Sequence[type[Any]] = (ApplicationPage, Application, ApplicationDocuments),
) -> st.SearchStrategy[tuple[type[Any], Payload]]:
    """Any reply of these, with the class that it is read as."""
    made = {
        ApplicationPage: pages(),
        Application: applications(),
        ApplicationDocuments: documents_replies(),
    }
    return st.one_of([st.tuples(st.just(cls), made[cls]) for cls in classes])


def _applicants() -> st.SearchStrategy[Payload]:
    entry = _object(
        address=_object(**_texts("street_address", "city", "state", "zip")),
        is_current=st.booleans(),
        start_date=days,
        end_date=st.none() | days,
    )
    return _object(
        **_texts("first_name", "last_name", "email", "phone", "ssn"),
        date_of_birth=days,
        address_info=_some(entry),
    )


def _calculations() -> st.SearchStrategy[Payload]:
    source = _object(source_type=texts, calculated_income_amount=numbers, document_ids=_some(texts))
    income = _object(year=st.integers(0, 9999), income_sources=_some(source))
    return _object(incomes=_some(income), suspected_fraudulent=_object(document_ids=_some(texts)))


def documents_replies() -> st.SearchStrategy[Payload]:
    """Replies with the documents of one application, paystubs and others."""
    other = st.dictionaries(texts, untyped, max_size=3)
    return _object(
        application_id=texts,
        application_reference_id=texts,
        documents=st.fixed_dictionaries(
            {},
            optional={
                "paystub": _some(_documents(_paystubs())),
                "unknown_form": _some(_documents(other)),
                "new:type": _some(_documents(other)),
            },
        ),
    )


def _documents(data: st.SearchStrategy[Payload]) -> st.SearchStrategy[Payload]:
    document = _object(
        **_texts("document_id", "url", "data_action"),
        file_ids=_some(texts),
        file_reference_ids=_some(texts),
        extracted_data=data,
        updated_at=utc_times,
    )
    blocks: st.SearchStrategy[Payload] = st.just({}) | st.fixed_dictionaries({"pages": untyped})
    return st.builds(lambda own, more: {**own, **more}, document, blocks)


def _paystubs() -> st.SearchStrategy[Payload]:
    address = _object(**_texts("street_address", "city", "state", "zip"), street_2=_text_or_null)
    names = _texts("first_name", "last_name", "ssn")
    person = _object(address=address, middle_name=_text_or_null, suffix=_text_or_null, **names)
    amount = numbers | st.just("")
    pair = _object(current=amount, ytd=amount)
    return _object(
        applicants=_by_slot(person),
        **_texts("employer_name", "pay_period_frequency"),
        **dict.fromkeys(("pay_begin_date", "pay_end_date", "pay_date"), days),
        hours_worked=numbers,
        **dict.fromkeys(("earnings", "deductions", "taxes"), _some(untyped)),
        **dict.fromkeys(_MONEY_FIELDS, pair),
    )
