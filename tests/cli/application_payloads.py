"""Invented applications, as small, as large and as odd as the contract allows, and looks at them.

`draw` returns the text that ``income-client application`` draws; `Look` runs the command.
"""

import copy
import json
import re
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any, Final

from attrs import frozen
from hypothesis import strategies as st

from income_client import Application, ApplicationDocuments, ApplicationRecord, from_json
from income_client.cli.application import draw_record
from income_client.cli.output import drawn
from income_client.emulator import Fault
from tests.support import strategies
from tests.support.cli import Cli
from tests.support.payloads import APPLICATION, DOCUMENTS, Payload
from tests.support.processes import Terminal

_KINDS: Final = ("employment", "self_employment", "pension", "social_security")
_STUB: Final[Payload] = DOCUMENTS["documents"]["paystub"][0]
_FORM: Final[Payload] = DOCUMENTS["documents"]["unknown_form"][0]
_CALCULATION: Final[Payload] = APPLICATION["income_calculations"]["applicant1"]
_INCOME: Final[Payload] = _CALCULATION["incomes"][0]
_SOURCE: Final[Payload] = _INCOME["income_sources"][0]
_EXACT: Final = re.compile(rb'"@(-?[0-9][-+.0-9Ee]*)@"')


@frozen
class Payloads:
    """The service's JSON of an application and of its documents."""

    application: Payload
    documents: Payload

    @property
    def bodies(self) -> tuple[bytes, bytes]:
        """Both as JSON, in which ``"@1E+3@"`` is the number 1E+3."""
        return _written(self.application), _written(self.documents)


def _written(payload: Payload) -> bytes:
    """Return JSON that has every digit of a decimal."""
    return _EXACT.sub(rb"\1", json.dumps(payload, default=lambda number: f"@{number}@").encode())


def _named(application: Payload, documents: Payload) -> Payloads:
    ids = {"application_id": "app-1"}
    return Payloads({**application, **ids}, {**documents, **ids})


ANY: Final = st.builds(_named, strategies.applications(), strategies.documents_replies())
"""Any application at all, under the id app-1."""


def paystub(number: int, *, month: int = 1, year: int = 2026, **data: Any) -> Payload:
    """Return a paystub for the first half of a month."""
    stub = copy.deepcopy(_STUB)
    stub["document_id"] = f"doc-{number}"
    for name, day in (("pay_begin_date", 1), ("pay_end_date", 14), ("pay_date", 19)):
        stub["extracted_data"][name] = f"{year:04}-{month:02}-{day:02}"
    stub["extracted_data"] |= data
    return stub


def form(number: int) -> Payload:
    """Return a document whose data has no known shape."""
    return {**copy.deepcopy(_FORM), "document_id": f"doc-{number}"}


def source(kind: str, amount: float | str, *document_ids: str) -> Payload:
    """Return a source of income; an amount as text is written as it is."""
    figure = f"@{amount}@" if isinstance(amount, str) else round(amount, 2)
    return _SOURCE | {
        "source_type": kind,
        "calculated_income_amount": figure,
        "document_ids": list(document_ids),
    }


def calculation(years: dict[int, list[Payload]], *suspected: str) -> Payload:
    return _CALCULATION | {
        "incomes": [
            _INCOME | {"year": year, "income_sources": each} for year, each in years.items()
        ],
        "suspected_fraudulent": {"document_ids": list(suspected)},
    }


def application_of(
    calculations: dict[str, Payload],
    *,
    stubs: tuple[Payload, ...] = (),
    forms: tuple[Payload, ...] = (),
) -> Payloads:
    """Return an application with these calculations and documents, Ada Sample in every slot."""
    application = copy.deepcopy(APPLICATION)
    person = application["applicants"]["applicant1"]
    application["applicants"] = dict.fromkeys(calculations, person)
    application["income_calculations"] = calculations
    documents = {**DOCUMENTS, "documents": {"paystub": list(stubs), "unknown_form": list(forms)}}
    return _named(application, documents)


def one_year(*sources: Payload, suspected: tuple[str, ...] = (), **documents: Any) -> Payloads:
    """Return an applicant with these sources in 2023, which is over."""
    return application_of({"applicant1": calculation({2023: [*sources]}, *suspected)}, **documents)


def suspicious() -> Payloads:
    """Return an applicant with several sources, of whose two paystubs one is suspected."""
    years = {
        2026: [
            source("employment", 41_234.5, "doc-1", "doc-2"),
            source("self_employment", 12_000, "doc-nowhere"),
            source("pension", 3_000.25),
        ],
        2025: [source("employment", 80_000, "doc-3"), source("pension", 6_000.5, "doc-3")],
    }
    stubs = (paystub(1, month=2), paystub(2, month=3))
    return application_of(
        {"applicant1": calculation(years, "doc-2")}, stubs=stubs, forms=(form(3),)
    )


def four_applicants() -> Payloads:
    """Return an application of four, the last of them without any income."""
    calculations = {
        f"applicant{n}": calculation(
            {2026: [source(_KINDS[n % 4], 20_000.0 * n, f"doc-{n}")]} if n < 4 else {}
        )
        for n in range(1, 5)
    }
    return application_of(calculations, stubs=tuple(paystub(n, month=n) for n in range(1, 4)))


def without_documents() -> Payloads:
    """Return an application whose amounts are supported by nothing."""
    return one_year(source("employment", 1000))


def twelve_years() -> Payloads:
    """Return an application of twelve years with up to four sources, one of them below zero."""
    years = {
        year: [
            source(kind, 61_000.37 * (place + 1) + (year - 2000) * 997.1, f"doc-{year}")
            for place, kind in enumerate(_KINDS[: 1 + year % 4])
        ]
        for year in range(2015, 2027)
    }
    years[2020].append(source("rental", -4_321.09, "doc-2020"))
    papers = tuple(form(year) for year in range(2015, 2026))
    stubs = (paystub(2026, month=3), paystub(1, month=11, year=2025))
    return application_of({"applicant1": calculation(years, "doc-2018")}, stubs=stubs, forms=papers)


def long_words() -> Payloads:
    """Return an application whose texts are long, act on terminals or look like markup."""
    long = "x" * 400
    evil = "<script>alert(1)</script>&\x1b[31m\u202e" + "[red]"
    odd = paystub(1, employer_name=evil + long)
    odd["document_id"] = evil + long
    return application_of(
        {
            "applicant1": calculation({2026: [source(evil + long, 9.99e14, evil + long)]}),
            evil + long: calculation({2026: [source("_" * 400, 0.01, long)]}, long),
        },
        stubs=(odd,),
    )


def unfinished_year() -> Payloads:
    """Return an application with the year of its last update, and the one before."""
    years = {2024: [source("employment", 1000)], 2023: [source("employment", 12_000)]}
    return application_of({"applicant1": calculation(years)})


CASES: Final = {
    "suspicious": suspicious,
    "four applicants": four_applicants,
    "without documents": without_documents,
    "twelve years": twelve_years,
    "unfinished year": unfinished_year,
    "long words": long_words,
}
"""Applications by what is special in them."""

LETTERS: Final = "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ"
"""Georgian: what is personal in a disguised application has these letters only."""
BORN: Final = "1907-03-09"
"""In a disguised application every day of birth, and every day on which somebody moved."""
WORDS: Final = st.lists(st.text(st.sampled_from(LETTERS), min_size=1, max_size=9), min_size=3)
_PERSONAL: Final = frozenset(
    {"first_name", "middle_name", "last_name", "suffix", "email", "phone", "ssn", "street_address",
     "street_2", "city", "state", "zip", "employer_name", "file_reference_id",
     "file_reference_ids", "url", "pages", "structured_data", "earnings", "deductions", "taxes"}
)  # fmt: skip
_DAYS: Final = frozenset({"date_of_birth", "start_date", "end_date"})
_BY_NAME: Final = frozenset({"applicants", "income_calculations", "documents"})
_PLAIN_NAMES: Final = frozenset({"applicant1", "paystub", "unknown_form"})


_KNOWN: Final = frozenset(re.findall(r'"(\w+)":', json.dumps([APPLICATION, DOCUMENTS])))


def disguised(payloads: Payloads, words: list[str]) -> Payloads:
    """Return an application in which every personal text is one of the words."""
    word = partial(next, cycle(words))

    def of(value: Any) -> Any:
        match value:
            case dict():
                return dict(field_of(key, each) for key, each in value.items())
            case list():
                return [of(each) for each in value]
            case str():
                return "".join(letter for letter in value if letter not in LETTERS)
            case _:
                return value

    def field_of(key: str, value: Any) -> tuple[str, Any]:
        if key in _BY_NAME and isinstance(value, dict):
            return key, {_name(name, word): of(each) for name, each in value.items()}
        if key in _DAYS:
            return key, BORN
        if key == "extracted_data" and "pay_date" not in value:
            return key, {word(): word()}
        if key in _PERSONAL:
            return key, _hidden(value, word)
        return (key, of(value)) if key in _KNOWN else (word(), word())

    return _named(of(payloads.application), of(payloads.documents))


def _name(name: str, word: Callable[[], str]) -> str:
    return name if name in _PLAIN_NAMES else f"{word()}{name!r}"


def _hidden(value: Any, word: Callable[[], str]) -> Any:
    match value:
        case str():
            return word()
        case list():
            return [_hidden(each, word) for each in value]
        case dict():
            return {word(): _hidden(each, word) for each in value.values()}
        case _:
            return value


_FIXED: Final = frozenset(
    {"application_id", "last_updated_at", "application_date", "date_of_birth", "start_date",
     "end_date", "updated_at", "pay_begin_date", "pay_end_date", "pay_date", "current", "ytd",
     "url"}
)  # fmt: skip
"""Fields that are no free text."""


def ending_with(value: Any, text: str) -> Any:
    """Return JSON whose free texts, and keys that are free, end with a text."""
    match value:
        case dict():
            return {
                key: each if key in _FIXED
                else _renamed(ending_with(each, text), text) if key in _BY_NAME
                else ending_with(each, text)
                for key, each in value.items()
            }  # fmt: skip
        case list():
            return [ending_with(each, text) for each in value]
        case str():
            return value + text
        case _:
            return value


def _renamed(value: Any, text: str) -> Any:
    if not isinstance(value, dict):
        return value
    return {key if key == "paystub" else key + text: each for key, each in value.items()}


SHOW_ALL: Final = "--show-personal-data"
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")


def unstyled(text: str) -> str:
    """Return what a terminal shows without colours."""
    return _STYLE.sub("", text)


def draw(payloads: Payloads, *arguments: str, width: int = 100) -> str:
    """Return what is drawn of an application in this width, without its styles."""
    application, documents = payloads.bodies
    record = ApplicationRecord(
        application=from_json(Application, application),
        documents=from_json(ApplicationDocuments, documents),
    )
    tree = draw_record(record, shows_all=SHOW_ALL in arguments)
    return unstyled("\n".join(drawn(tree, width)))


class Look:
    """Looks at applications.

    Args:
        shell: the command on a service.
    """

    def __init__(self, shell: Cli) -> None:
        self._shell = shell

    def __call__(
        self, payloads: Payloads, *arguments: str, width: int | None = None, **env: str
    ) -> str:
        """Return what is printed: on a terminal of this width, or in a pipe."""
        self._serve(payloads)
        terminal = None if width is None else Terminal(columns=width)
        ran = self._shell("application", "app-1", *arguments, terminal=terminal, env=env)
        assert ran.status == 0, ran
        return ran.stdout + ran.screen.replace("\r\n", "\n")

    def _serve(self, payloads: Payloads) -> None:
        application, documents = payloads.bodies
        self._shell.service.faults.clear()
        self._shell.service.faults.add(
            Fault("body", path="*/app-1", body=application, times=None),
            Fault("body", path="*/app-1/documents", body=documents, times=None),
        )
