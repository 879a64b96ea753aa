"""What is masked is nowhere in what is shown, whatever the service says."""

from typing import Final

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client import ApplicationRecord
from income_client.cli.looking.page import page
from income_client.cli.looking.reading import view_of
from tests.cli.application_disguise import BORN, LETTERS, disguised
from tests.cli.application_records import (
    RECORDS,
    calculation,
    paystub,
    printed,
    record,
    source,
    suspicious,
)

_WORDS: Final = st.lists(st.text(st.sampled_from(LETTERS), min_size=1, max_size=9), min_size=3)


def everything_shown(record: ApplicationRecord, *, show_personal_data: bool) -> str:
    """Return the view, the page and the terminal's text of a record."""
    view = view_of(record, show_personal_data=show_personal_data)
    return "\n".join((repr(view), page(view).decode(), printed(view, width=120)))


@given(RECORDS, _WORDS)
def test_nothing_personal_is_shown(record: ApplicationRecord, words: list[str]) -> None:
    """No letter of a name, number, address, employer, file's name or unknown field is shown."""
    shown = everything_shown(disguised(record, words), show_personal_data=False)
    assert not set(shown) & set(LETTERS)
    assert BORN.isoformat() not in shown


@given(RECORDS, _WORDS)
def test_reprs_never_tell(record: ApplicationRecord, words: list[str]) -> None:
    """Even a view that shows everything keeps it out of its repr, where logs would find it."""
    view = view_of(disguised(record, words), show_personal_data=True)
    assert not set(repr(view)) & set(LETTERS)


def test_the_length_of_a_name_is_not_shown() -> None:
    """The dots are as many for everybody."""
    record = suspicious()
    person = record.application.applicants["applicant1"]
    longer = evolve(
        record,
        application=evolve(
            record.application,
            applicants={"applicant1": evolve(person, first_name="A" * 30, ssn="9" * 30)},
        ),
    )
    assert view_of(record) == view_of(longer)


@pytest.mark.parametrize(
    "name", ["John Smith", "Smith", "JOHN", "john smith", "Ada-Sample", "a__b"]
)
def test_a_name_in_a_place_of_kinds_is_hidden(name: str) -> None:
    """Kinds, types, frequencies and slots that are not written like the contract's are hidden."""
    stub = paystub(1, pay_period_frequency=name)
    years = {2026: [source(name, 1, "doc-1")]}
    made = record({name: calculation(years)}, stubs=(stub,))
    assert made.documents is not None
    papers = {name: made.documents.documents["paystub"]}
    odd = evolve(made, documents=evolve(made.documents, documents=papers))
    hidden = everything_shown(odd, show_personal_data=False)
    assert name not in hidden
    assert name.replace("_", " ") not in hidden
    assert "Applicant 1" in hidden
    view = view_of(odd)
    (person,) = view.applicants
    assert person.years[0].sources[0].name == "other"
    assert view.documents[0].label == "D1 other"
    assert view.documents[0].facts[0].value == "other frequency"
    assert name.replace("_", " ") in everything_shown(odd, show_personal_data=True)


def test_the_contracts_words_are_not_hidden() -> None:
    """What is written like them is shown, and so is the partner's own key of the application."""
    hidden = everything_shown(suspicious(), show_personal_data=False)
    for text in ("self employment", "D3 w2", "biweekly", "Reference loan-1"):
        assert text in hidden


def test_the_disguise_is_seen_where_it_may_be() -> None:
    """With personal data shown, the name, number, address, employer and file's name are there."""
    shown = everything_shown(suspicious(), show_personal_data=True)
    told = (
        "Ada Sample",
        "000-11-2222",
        "ada@example.org",
        "5550100",
        "1 Invented Way",
        "1980-02-29",
    )
    for text in (*told, "Invented Works", "ada-sample-paystub.pdf"):
        assert text in shown
    hidden = everything_shown(suspicious(), show_personal_data=False)
    for text in (*told, "Ada", "Sample", "2222", "Invented", "ada-sample-paystub.pdf"):
        assert text not in hidden
