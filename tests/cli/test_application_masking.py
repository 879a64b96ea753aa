"""What is masked is nowhere in what is shown, whatever the service says."""

from typing import Final

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client import ApplicationRecord
from income_client.cli.looking.page import page
from income_client.cli.looking.reading import view_of
from tests.cli.application_disguise import BORN, LETTERS, disguised
from tests.cli.application_records import RECORDS, printed, suspicious, unhurried

_WORDS: Final = st.lists(st.text(st.sampled_from(LETTERS), min_size=1, max_size=9), min_size=3)


def everything_shown(record: ApplicationRecord, *, show_personal_data: bool) -> str:
    """Return the view, the page and the terminal's text of a record."""
    view = view_of(record, show_personal_data=show_personal_data)
    return "\n".join((repr(view), page(view).decode(), printed(view, width=120)))


@unhurried
@given(RECORDS, _WORDS)
def test_nothing_personal_is_shown(record: ApplicationRecord, words: list[str]) -> None:
    """No letter of a name, number, address, employer, file's name or unknown field is shown."""
    shown = everything_shown(disguised(record, words), show_personal_data=False)
    assert not set(shown) & set(LETTERS)
    assert BORN.isoformat() not in shown


@unhurried
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
