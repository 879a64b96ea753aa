"""Valid applicants, applications and documents for tests; everything in them is invented.

Each call makes another one, unless a number is given: the same number makes the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import count
from random import Random
from typing import Any, Final, TypeAlias, TypedDict, TypeVar, Unpack, get_origin

import attrs
import msgspec

from income_client import (
    Application,
    ApplicationDocuments,
    ApplicationRecord,
    Document,
    IncomeCalculation,
    InvalidArgumentError,
    Paystub,
    from_json,
)
from income_client.emulator.invented import invent_employment, invent_paystubs, invent_person
from income_client.emulator.service_rules import check_names, names_of
from income_client.emulator.times import START
from income_client.records import (
    Address,
    AddressEntry,
    AmountPair,
    Applicant,
    DataSources,
    DocumentSource,
    ImageFile,
    IncomeSource,
    PaystubAddress,
    PaystubApplicant,
    SuspectedFraudulent,
    YearlyIncome,
)
from income_client.records.document_types import DOCUMENT_TYPES, type_of
from income_client.records.fields import Amount, ServiceTime, UtcTime

Applicants: TypeAlias = int | Sequence[Applicant] | Mapping[str, Applicant]
"""Number of applicants, or the applicants themselves, in order or by slot."""
INVENTED_ADDRESS: Final = "https://invented.s3.amazonaws.com/documents/"
"""Beginning of the URLs of invented documents; a service serves their files."""

_EMPLOYERS: Final = ("Acme Tool Works", "Blue Heron Clinic", "Delta Diner", "Foundry Nine")
_FIRST_UPDATE: Final = START.replace(tzinfo=UTC) - timedelta(hours=3)
_UPDATE_SECONDS: Final = 10_000
_LAST_YEAR: Final = START.year - 1
_SOMEWHERE: Final = Address(street_address="1 Elm Street", city="Salem", state="MA", zip="01970")
_numbers = count(1)

T = TypeVar("T", bound=attrs.AttrsInstance)


class ApplicantFields(TypedDict, total=False):
    """Fields of `Applicant`."""

    first_name: str
    last_name: str
    email: str
    phone: str
    ssn: str
    date_of_birth: date
    address_info: tuple[AddressEntry, ...]
    extra: Mapping[str, Any]


class ApplicationFields(TypedDict, total=False):
    """Fields of `Application`, except its applicants."""

    application_id: str
    last_updated_at: datetime
    application_reference_id: str
    application_date: datetime
    income_calculations: Mapping[str, IncomeCalculation]
    data_sources: DataSources
    extra: Mapping[str, Any]


class DocumentFields(TypedDict, total=False):
    """Fields of `Document`."""

    document_id: str
    file_ids: tuple[str, ...]
    file_reference_ids: tuple[str, ...]
    url: str
    extracted_data: object
    updated_at: datetime
    data_action: str
    pages: object
    extracted_extra: Mapping[str, Any]
    extra: Mapping[str, Any]


class PaystubFields(TypedDict, total=False):
    """Fields of `Paystub`."""

    applicants: Mapping[str, PaystubApplicant]
    employer_name: str
    pay_begin_date: date
    pay_end_date: date
    pay_date: date
    pay_period_frequency: str
    hours_worked: Decimal
    regular_pay: AmountPair
    gross_pay: AmountPair
    overtime_pay: AmountPair
    garnishments: AmountPair
    loans401_k: AmountPair
    bonus_pay: AmountPair
    commission_pay: AmountPair
    tips_pay: AmountPair
    sick_pay: AmountPair
    vacation_pay: AmountPair
    net_pay: AmountPair
    earnings: tuple[Any, ...]
    deductions: tuple[Any, ...]
    taxes: tuple[Any, ...]
    extra: Mapping[str, Any]


def make_applicant(*, number: int | None = None, **fields: Unpack[ApplicantFields]) -> Applicant:
    """Make up an applicant.

    Args:
        number: decides everything invented; another one each time unless given.
        **fields: of `Applicant`, in place of what is invented.

    Raises:
        ConfigurationError: there is no such field.
    """
    return _with_fields(make_applicant, _make_applicant(_number_or_next(number)), fields)


def make_paystub(
    *,
    number: int | None = None,
    slot: str = "applicant1",
    applicant: Applicant | None = None,
    **fields: Unpack[PaystubFields],
) -> Paystub:
    """Make up the data of a pay slip.

    Args:
        number: decides everything invented; another one each time unless given.
        slot: whose it is, by slot.
        applicant: whose it is; somebody invented unless given.
        **fields: of `Paystub`, in place of what is invented; sums are not made to agree again.

    Raises:
        ConfigurationError: there is no such field.
    """
    number = _number_or_next(number)
    (paystub,) = _make_paystubs(number, slot, applicant or _make_applicant(number), 1)
    return _with_fields(make_paystub, paystub, fields)


def make_document(
    document_type: str = "paystub",
    *,
    number: int | None = None,
    application_id: str | None = None,
    slot: str = "applicant1",
    applicant: Applicant | None = None,
    **fields: Unpack[DocumentFields],
) -> Document:
    """Make up a document: of a typed document type, such as a pay slip, with its data.

    Args:
        document_type: the service's key of the type.
        number: decides everything invented; another one each time unless given.
        application_id: the application that it belongs to.
        slot: whose it is, by slot.
        applicant: whose it is; somebody invented unless given.
        **fields: of `Document`, in place of what is invented.

    Raises:
        ConfigurationError: there is no such field.
    """
    number = _number_or_next(number)
    name = f"{number:010x}"
    if document_type in DOCUMENT_TYPES and "extracted_data" not in fields:
        fields["extracted_data"] = _make_data(document_type, number, slot, applicant)
    document = _invent_fields(
        Document,
        number,
        document_id=f"doc-{name}",
        file_ids=(f"file-{name}",),
        file_reference_ids=(f"{document_type} {number}.pdf",),
        url=f"{INVENTED_ADDRESS}{name}",
        extracted_data={},
        updated_at=_update_time(number),
        data_action="create",
        source=DocumentSource(application_id or _application_id(number), document_type),
    )
    return _with_fields(make_document, document, fields)


def make_application(
    *,
    number: int | None = None,
    applicants: Applicants = 1,
    documents: Iterable[Document] = (),
    suspected: Iterable[Document | str] = (),
    **fields: Unpack[ApplicationFields],
) -> Application:
    """Make up an application, with the income that its documents support.

    Args:
        number: decides everything invented; another one each time unless given.
        applicants: how many, or which ones, or which ones by slot.
        documents: what the amounts are calculated from, a pay slip for the slot it names;
            an amount of no document unless given.
        suspected: documents, or their ids, that the service has doubts about.
        **fields: of `Application`, in place of what is invented.

    Raises:
        ConfigurationError: there is no such field, or the number of applicants is negative.
    """
    number = _number_or_next(number)
    application = _make_application(
        number, _by_slot(number, applicants), tuple(documents), suspected
    )
    return _with_fields(make_application, application, fields)


def make_record(
    *,
    number: int | None = None,
    applicants: Applicants = 1,
    paystubs: int = 1,
    suspected: int = 0,
    **fields: Unpack[ApplicationFields],
) -> ApplicationRecord:
    """Make up an application with its documents: ``make_record(applicants=2, suspected=1)``.

    Args:
        number: decides everything invented; another one each time unless given.
        applicants: how many, or which ones, or which ones by slot.
        paystubs: how many pay slips each applicant has: the latest ones, of this year and as
            many before it as are needed.
        suspected: how many pay slips the service has doubts about, the first ones.
        **fields: of `Application`, in place of what is invented.

    Raises:
        InvalidArgumentError: a number is negative, or ``suspected`` is more than there are
            pay slips.
        ConfigurationError: there is no such field.
    """
    _check_whole("paystubs", paystubs)
    _check_whole("suspected", suspected)
    number = _number_or_next(number)
    application_id = fields.get("application_id", _application_id(number))
    people = _by_slot(number, applicants)
    documents = [
        document
        for slot, person in people.items()
        for document in _slip_documents(number, application_id, slot, person, paystubs)
    ]
    if suspected > len(documents):
        raise InvalidArgumentError(
            f"suspected must be from 0 to {len(documents)}, the number of pay slips",
            argument="suspected",
        )
    application = _make_application(number, people, documents, documents[:suspected])
    application = _with_fields(make_record, application, fields)
    return ApplicationRecord(
        application=application, documents=documents_of(application, documents)
    )


def documents_of(application: Application, documents: Iterable[Document]) -> ApplicationDocuments:
    """Return documents by the type of their source, or as paystubs without a source."""
    by_type: dict[str, tuple[Document, ...]] = {}
    for document in documents:
        kind = document.source.document_type if document.source else "paystub"
        by_type[kind] = (*by_type.get(kind, ()), document)
    return ApplicationDocuments(
        application_id=application.application_id,
        application_reference_id=application.application_reference_id,
        documents=by_type,
    )


def _number_or_next(number: int | None) -> int:
    return next(_numbers) if number is None else number


def _random_for(number: int | str, what: str) -> Random:
    return Random(f"{what} {number}")  # noqa: S311 - invents data


def _application_id(number: int) -> str:
    return f"app-test-{number:06d}"


def _update_time(number: int) -> datetime:
    return _FIRST_UPDATE + timedelta(seconds=number % _UPDATE_SECONDS)


def _make_applicant(number: int) -> Applicant:
    person = invent_person(_random_for(number, "applicant"), START.date())
    return from_json(Applicant, msgspec.json.encode(person.applicant))


def _by_slot(number: int, applicants: Applicants) -> Mapping[str, Applicant]:
    if isinstance(applicants, Mapping):
        return dict(applicants)
    if not isinstance(applicants, Iterable):
        _check_whole("applicants", applicants)
        # The first applicant of an application is never the second of another.
        applicants = [_make_applicant(number + 10**6 * place) for place in range(applicants)]
    return {f"applicant{place}": each for place, each in enumerate(applicants, 1)}


def _check_whole(name: str, value: int) -> None:
    if type(value) is not int or value < 0:
        raise InvalidArgumentError(
            f"{name} must be a whole number, 0 or more, not {value!r}", argument=name
        )


def _make_data(document_type: str, number: int, slot: str, applicant: Applicant | None) -> object:
    """Invent the data of a typed document: of a pay slip with sums that agree."""
    person = applicant or _make_applicant(number)
    if document_type == "paystub":
        return make_paystub(number=number, slot=slot, applicant=person)
    return _invent_fields(
        DOCUMENT_TYPES[document_type].data, number, {slot: _paystub_applicant(person)}
    )


def _invent_fields(
    cls: type[T],
    number: int,
    persons: Mapping[str, PaystubApplicant] | None = None,
    **fields: object,
) -> T:
    """Invent a record by its fields' types; optional fields are absent, arrays are empty.

    ``persons`` become those of a document; ``fields`` keep their values.
    """
    kind: Any = cls
    rng = _random_for(number, kind.__name__)
    amount = Decimal(rng.randrange(1_000_000)) / 100
    values: dict[Any, object] = {
        int: rng.randrange(100),
        bool: False,
        date: START.date() - timedelta(days=rng.randrange(1, 100)),
        Decimal: amount,
        Amount: amount,
        AmountPair: AmountPair(current=amount, ytd=amount),
        ServiceTime: START,
        UtcTime: _update_time(number),
        Mapping[str, PaystubApplicant]: persons or {},
    }
    content: dict[str, object] = dict(fields)
    for field in attrs.fields(kind):
        if field.default is not attrs.NOTHING or field.name in fields:
            continue
        if field.type in values:
            content[field.name] = values[field.type]
        elif field.type is str:
            content[field.name] = f"{field.name} {number}"
        elif get_origin(field.type) in {tuple, Mapping}:
            content[field.name] = {} if get_origin(field.type) is Mapping else ()
        elif attrs.has(field.type):
            content[field.name] = _invent_fields(field.type, number, persons)
        else:
            content[field.name] = None
    record: T = kind(**content)
    return record


def _make_paystubs(
    number: int | str, slot: str, applicant: Applicant, how_many: int
) -> Iterator[Paystub]:
    """Invent the latest pay slips of an applicant, oldest first; the sums of each year agree."""
    rng = _random_for(number, "pay")
    payer = rng.choice(_EMPLOYERS)
    employment = invent_employment(rng)
    today = START.date() - timedelta(days=1)
    stubs: list[dict[str, Any]] = []
    while len(stubs) < how_many:
        of_year = invent_paystubs(
            rng,
            employment,
            year=today.year,
            today=today,
            count=how_many - len(stubs),
            raised=0,
            payer=payer,
            applicants={},
        )
        stubs = of_year + stubs
        # A slip of the year before is paid before its end, or its sums would be of another year.
        today = date(today.year - 1, 12, 31)
    applicants = {slot: _paystub_applicant(applicant)}
    for stub in stubs:
        slip = from_json(Paystub, msgspec.json.encode(stub))
        yield attrs.evolve(slip, applicants=applicants)


def _paystub_applicant(applicant: Applicant) -> PaystubApplicant:
    home = applicant.address_info[0].address if applicant.address_info else _SOMEWHERE
    parts = {name: getattr(home, name) for name in ("street_address", "city", "state", "zip")}
    return PaystubApplicant(
        address=PaystubAddress(**parts, street_2=None),
        first_name=applicant.first_name,
        middle_name=None,
        last_name=applicant.last_name,
        suffix=None,
        ssn=f"*****{applicant.ssn[-4:]}",
    )


def _slip_documents(
    number: int, application_id: str, slot: str, applicant: Applicant, how_many: int
) -> Iterator[Document]:
    pay = number if slot == "applicant1" else f"{number} {slot}"
    for turn, slip in enumerate(_make_paystubs(pay, slot, applicant, how_many), 1):
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


def _make_application(
    number: int,
    people: Mapping[str, Applicant],
    documents: Sequence[Document],
    suspected: Iterable[Document | str],
) -> Application:
    """Return an application that is invented except for its people and documents."""
    applied_on = START.date() - timedelta(days=1 + number % 3)
    doubted = [each if isinstance(each, str) else each.document_id for each in suspected]
    files = [
        _invent_fields(ImageFile, number, file_id=file_id, file_reference_id=name)
        for document in documents
        for file_id, name in zip(document.file_ids, document.file_reference_ids, strict=False)
    ]
    return _invent_fields(
        Application,
        number,
        application_id=_application_id(number),
        last_updated_at=_update_time(number),
        application_reference_id=f"TEST-{number:08d}",
        application_date=datetime.combine(applied_on, time(9)),
        applicants=people,
        income_calculations=_make_calculations(number, tuple(people), documents, doubted),
        data_sources=DataSources(image_files=tuple(files), structured_data=()),
    )


def _make_calculations(
    number: int, slots: Sequence[str], documents: Sequence[Document], doubted: Sequence[str]
) -> Mapping[str, IncomeCalculation]:
    """Return the income that documents support.

    A document without applicants counts for the first.
    """
    first = slots[0] if slots else ""
    slot_of: dict[str, str] = {}
    for document in documents:
        data = document.extracted_data
        own_slots = type_of(data).applicants(data)
        slot_of[document.document_id] = next((slot for slot in own_slots if slot in slots), first)
    calculations = {}
    for place, slot in enumerate(slots):
        supporting = [each for each in documents if slot_of[each.document_id] == slot]
        suspected = tuple(name for name in doubted if slot_of.get(name, first) == slot)
        calculations[slot] = IncomeCalculation(
            incomes=_make_incomes(number + place, supporting),
            suspected_fraudulent=SuspectedFraudulent(document_ids=suspected),
        )
    return calculations


def _make_incomes(number: int, documents: Sequence[Document]) -> tuple[YearlyIncome, ...]:
    """Return each year's income from the latest document of payments, or any amount without one."""
    by_year: dict[int, list[Document]] = {} if documents else {_LAST_YEAR: []}
    latest: dict[int, tuple[date, Decimal | None]] = {}
    for document in documents:
        data, year = document.extracted_data, _LAST_YEAR
        if (paid_on := type_of(data).paid_on(data)) is not None:
            year = paid_on.year
            if year not in latest or latest[year][0] < paid_on:
                latest[year] = paid_on, type_of(data).year_to_date(data)
        by_year.setdefault(year, []).append(document)
    incomes = []
    for year in sorted(by_year, reverse=True):
        _, amount = latest.get(year, (None, None))
        if amount is None:
            amount = Decimal(_random_for(number, "income").randrange(2_000_000, 15_000_000)) / 100
        source = _invent_fields(
            IncomeSource,
            number,
            source_type="employment",
            calculated_income_amount=amount,
            document_ids=tuple(document.document_id for document in by_year[year]),
        )
        incomes.append(YearlyIncome(year=year, income_sources=(source,)))
    return tuple(incomes)


def _with_fields(make: Callable[..., object], record: T, fields: Mapping[str, Any]) -> T:
    """Return a record with fields that the caller of a factory sets."""
    names = [each.name for each in attrs.fields(type(record)) if each.name != "source"]
    check_names(make.__name__, fields, (*names, *names_of(make)))
    whole: Any = record
    changed: T = attrs.evolve(whole, **fields)
    return changed
