"""Whole records for tests: applications with pay slips that support their amounts.

Puts together what the other factories make.
"""

from collections.abc import Iterator
from typing import Unpack

from income_client import (
    Applicant,
    ApplicationDocuments,
    ApplicationRecord,
    ConfigurationError,
    Document,
)

from . import invented
from .factories import (
    Applicants,
    application_id_of,
    by_slot,
    invented_application,
    make_document,
)
from .factory_fields import ApplicationFields, changed
from .given import INVENTED_ADDRESS, by_type


def make_record(
    *,
    number: int | None = None,
    applicants: Applicants = 1,
    paystubs: int = 1,
    suspected: int = 0,
    **fields: Unpack[ApplicationFields],
) -> ApplicationRecord:
    """Make an application with its documents up: ``make_record(applicants=2, suspected=1)``.

    Args:
        number: what everything invented hangs on; another one each time unless given.
        applicants: how many, or which ones, or which ones by slot.
        paystubs: pay slips of each applicant, the latest ones of this year.
        suspected: how many pay slips the service has doubts about, the first ones.
        **fields: of `Application`, in place of what is invented.

    Raises:
        ConfigurationError: there is no such field, or there are fewer pay slips than that.
    """
    number = invented.next_number() if number is None else number
    application_id = fields.get("application_id", application_id_of(number))
    people = by_slot(number, applicants)
    documents = [
        document
        for slot, person in people.items()
        for document in _slips(number, application_id, slot, person, paystubs)
    ]
    if not 0 <= suspected <= len(documents):
        raise ConfigurationError(f"suspected is from 0 to {len(documents)}, the pay slips")
    made = invented_application(number, people, documents, documents[:suspected])
    application = changed(made, fields, "number", "paystubs", "suspected")
    return ApplicationRecord(
        application=application,
        documents=ApplicationDocuments(
            application_id=application.application_id,
            application_reference_id=application.application_reference_id,
            documents=by_type(documents),
        ),
    )


def _slips(
    number: int, application_id: str, slot: str, person: Applicant, how_many: int
) -> Iterator[Document]:
    pay = number if slot == "applicant1" else f"{number} {slot}"
    for turn, slip in enumerate(invented.paystubs(pay, slot, person, how_many), 1):
        name = f"{number:06d}-{slot}-{turn:02d}"
        yield make_document(
            number=number,
            application_id=application_id,
            document_id=f"doc-{name}",
            file_ids=(f"file-{name}",),
            file_reference_ids=(f"paystub {slip.pay_date} {slot}.pdf",),
            url=f"{INVENTED_ADDRESS}{name}",
            extracted_data=slip,
        )
