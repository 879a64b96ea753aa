"""Valid applicants, applications and documents for tests; everything in them is invented.

Each call makes another one, unless a number is given: the same number makes the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Final, TypeAlias, Unpack

from income_client import (
    Applicant,
    Application,
    ConfigurationError,
    DataSources,
    Document,
    DocumentSource,
    ImageFile,
    Paystub,
)

from . import invented
from .calculations import calculations
from .factory_fields import (
    ApplicantFields,
    ApplicationFields,
    DocumentFields,
    PaystubFields,
    changed,
)
from .given import INVENTED_ADDRESS

Applicants: TypeAlias = int | Sequence[Applicant] | Mapping[str, Applicant]
"""How many, or which ones, or which ones by slot."""

_LONGEST_AGO: Final = timedelta(hours=3)
_SECONDS: Final = 10_000


def make_applicant(*, number: int | None = None, **fields: Unpack[ApplicantFields]) -> Applicant:
    """Make a borrower up.

    Args:
        number: what everything invented hangs on; another one each time unless given.
        **fields: of `Applicant`, in place of what is invented.

    Raises:
        ConfigurationError: there is no such field.
    """
    return changed(invented.applicant(_numbered(number)), fields, "number")


def make_paystub(
    *,
    number: int | None = None,
    slot: str = "applicant1",
    applicant: Applicant | None = None,
    **fields: Unpack[PaystubFields],
) -> Paystub:
    """Make the data of a pay slip up.

    Args:
        number: what everything invented hangs on; another one each time unless given.
        slot: whose it is, by slot.
        applicant: whose it is; somebody invented unless given.
        **fields: of `Paystub`, in place of what is invented; sums are not made to agree again.

    Raises:
        ConfigurationError: there is no such field.
    """
    number = _numbered(number)
    (made,) = invented.paystubs(number, slot, applicant or invented.applicant(number), 1)
    return changed(made, fields, "number", "slot", "applicant")


def make_document(
    document_type: str = "paystub",
    *,
    number: int | None = None,
    application_id: str | None = None,
    slot: str = "applicant1",
    applicant: Applicant | None = None,
    **fields: Unpack[DocumentFields],
) -> Document:
    """Make a document up: of a pay slip with its data, of another type without.

    Args:
        document_type: the service's key of the type.
        number: what everything invented hangs on; another one each time unless given.
        application_id: the application that it belongs to.
        slot: whose it is, by slot.
        applicant: whose it is; somebody invented unless given.
        **fields: of `Document`, in place of what is invented.

    Raises:
        ConfigurationError: there is no such field.
    """
    number = _numbered(number)
    name = f"{number:010x}"
    is_slip = document_type == "paystub" and "extracted_data" not in fields
    made = Document(
        document_id=f"doc-{name}",
        file_ids=(f"file-{name}",),
        file_reference_ids=(f"{document_type} {number}.pdf",),
        url=f"{INVENTED_ADDRESS}{name}",
        extracted_data=make_paystub(number=number, slot=slot, applicant=applicant)
        if is_slip
        else {},
        updated_at=_updated(number),
        data_action="create",
        source=DocumentSource(application_id or application_id_of(number), document_type),
    )
    return changed(made, fields, "number", "application_id", "slot", "applicant")


def make_application(
    *,
    number: int | None = None,
    applicants: Applicants = 1,
    documents: Iterable[Document] = (),
    suspected: Iterable[Document | str] = (),
    **fields: Unpack[ApplicationFields],
) -> Application:
    """Make an application up, with the income that its documents support.

    Args:
        number: what everything invented hangs on; another one each time unless given.
        applicants: how many, or which ones, or which ones by slot.
        documents: what the amounts are calculated from, a pay slip for the slot it names;
            an amount of no document unless given.
        suspected: documents, or their ids, that the service has doubts about.
        **fields: of `Application`, in place of what is invented.

    Raises:
        ConfigurationError: there is no such field, or there are fewer than no applicants.
    """
    number = _numbered(number)
    people = by_slot(number, applicants)
    made = invented_application(number, people, tuple(documents), suspected)
    return changed(made, fields, "number", "documents", "suspected")


def invented_application(
    number: int,
    people: Mapping[str, Applicant],
    documents: Sequence[Document],
    suspected: Iterable[Document | str],
) -> Application:
    """Return an application in which everything is invented but people and documents.

    Args:
        number: what everything invented hangs on.
        people: its applicants by slot.
        documents: what the amounts are calculated from.
        suspected: documents, or their ids, that the service has doubts about.
    """
    doubted = [each if isinstance(each, str) else each.document_id for each in suspected]
    return Application(
        application_id=application_id_of(number),
        last_updated_at=_updated(number),
        application_reference_id=f"TEST-{number:08d}",
        application_date=datetime.combine(invented.day(number), time(9)),
        applicants=people,
        income_calculations=calculations(number, tuple(people), documents, doubted),
        data_sources=DataSources(image_files=_files(documents), structured_data=()),
    )


def application_id_of(number: int) -> str:
    """Return the id of the application that is made of a number."""
    return f"app-test-{number:06d}"


def by_slot(number: int, applicants: Applicants) -> Mapping[str, Applicant]:
    """Return applicants by slot, those of a mere number made up.

    Raises:
        ConfigurationError: there are fewer than none.
    """
    if isinstance(applicants, Mapping):
        return dict(applicants)
    if isinstance(applicants, int):
        if applicants < 0:
            raise ConfigurationError(f"applicants are 0 or more, not {applicants}")
        # The first applicant of an application is nobody else's second.
        applicants = [invented.applicant(number + 10**6 * place) for place in range(applicants)]
    return {f"applicant{place}": each for place, each in enumerate(applicants, 1)}


def _numbered(number: int | None) -> int:
    return invented.next_number() if number is None else number


def _updated(number: int) -> datetime:
    moment = invented.PRESENT - _LONGEST_AGO + timedelta(seconds=number % _SECONDS)
    return moment.replace(tzinfo=UTC)


def _files(documents: Iterable[Document]) -> tuple[ImageFile, ...]:
    return tuple(
        ImageFile(file_id=file_id, file_reference_id=name)
        for document in documents
        for file_id, name in zip(document.file_ids, document.file_reference_ids, strict=False)
    )
