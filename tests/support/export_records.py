"""Records for the tests of exporting: any that the service could send, and a small known one."""

import json
from decimal import Decimal
from typing import Any

from attrs import evolve
from hypothesis import strategies as st

from income_client import Application, ApplicationDocuments, ApplicationRecord, from_json
from tests.support.payloads import APPLICATION, DOCUMENTS, text_of
from tests.support.strategies import applications, documents_replies

_LARGE = 10**12


def record_of(application: Any, documents: Any | None) -> ApplicationRecord:
    """Read a record from replies."""
    return ApplicationRecord(
        application=from_json(Application, text_of(application)),
        documents=None
        if documents is None
        else from_json(ApplicationDocuments, text_of(documents)),
    )


def known_record() -> ApplicationRecord:
    """Return one with a value for every field of the contract."""
    return record_of(APPLICATION, DOCUMENTS)


def with_year(year: int) -> ApplicationRecord:
    """Return a record with income of a year, which may fit no column."""
    application = json.loads(json.dumps(APPLICATION))
    application["income_calculations"]["applicant1"]["incomes"][0]["year"] = year
    return record_of(application, None)


def handmade(application_id: str) -> ApplicationRecord:
    """Return a record that no reply can be: of another type than its class has."""
    wrong: Any = 7
    record = known_record()
    changes = {"application_id": application_id, "application_reference_id": wrong}
    return evolve(record, application=evolve(record.application, **changes))


def fitting_records() -> st.SearchStrategy[ApplicationRecord]:
    """Return any that the service could send, with amounts that columns can hold."""
    return st.builds(
        record_of,
        applications().map(_rounded),
        st.none() | documents_replies().map(_rounded),
    )


def _rounded(value: Any) -> Any:
    match value:
        case Decimal() if abs(value) < _LARGE:
            return Decimal(f"{value:.6f}")
        case Decimal():
            return Decimal("1.5")
        case int() if abs(value) >= _LARGE:
            return 15
        case dict():
            return {key: _rounded(one) for key, one in value.items()}
        case list():
            return [_rounded(one) for one in value]
        case _:
            return value
