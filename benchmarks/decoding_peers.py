"""The same replies as models of pydantic and as structs of msgspec; measures nothing.

The models are as strict as the records: exact types, times with or without a
zone as the contract has them, unknown fields kept. The structs are the limit
that typed decoding has: built in C while the text is parsed, they drop unknown
fields and do not notice a key that stands twice.
"""

# ruff: noqa: D101 - each class is what the record of its name is

import functools
import operator
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from types import UnionType
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, NaiveDatetime

Amount = Annotated[Literal[""] | Decimal, Field(union_mode="left_to_right")]


class Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", frozen=True)


class SummaryModel(Model):
    application_id: str
    application_reference_id: str
    application_date: NaiveDatetime


class PageModel(Model):
    updated_after: NaiveDatetime
    updated_before: NaiveDatetime
    applications: tuple[SummaryModel, ...]


class AddressModel(Model):
    street_address: str
    city: str
    state: str
    zip: str


class AddressEntryModel(Model):
    address: AddressModel
    is_current: bool
    start_date: date
    end_date: date | None


class ApplicantModel(Model):
    first_name: str
    last_name: str
    email: str
    phone: str
    ssn: str
    date_of_birth: date
    address_info: tuple[AddressEntryModel, ...]


class IncomeSourceModel(Model):
    source_type: str
    calculated_income_amount: Decimal
    document_ids: tuple[str, ...]


class YearlyIncomeModel(Model):
    year: int
    income_sources: tuple[IncomeSourceModel, ...]


class SuspectedFraudulentModel(Model):
    document_ids: tuple[str, ...]


class IncomeCalculationModel(Model):
    incomes: tuple[YearlyIncomeModel, ...]
    suspected_fraudulent: SuspectedFraudulentModel


class ImageFileModel(Model):
    file_id: str
    file_reference_id: str


class DataSourcesModel(Model):
    image_files: tuple[ImageFileModel, ...]
    structured_data: tuple[Any, ...]


class ApplicationModel(Model):
    application_id: str
    last_updated_at: AwareDatetime
    application_reference_id: str
    application_date: NaiveDatetime
    applicants: dict[str, ApplicantModel]
    income_calculations: dict[str, IncomeCalculationModel]
    data_sources: DataSourcesModel


class PaystubAddressModel(AddressModel):
    street_2: str | None


class PaystubApplicantModel(Model):
    address: PaystubAddressModel
    first_name: str
    middle_name: str | None
    last_name: str
    suffix: str | None
    ssn: str


class AmountPairModel(Model):
    current: Amount
    ytd: Amount


class PaystubModel(Model):
    applicants: dict[str, PaystubApplicantModel]
    employer_name: str
    pay_begin_date: date
    pay_end_date: date
    pay_date: date
    pay_period_frequency: str
    hours_worked: Decimal
    regular_pay: AmountPairModel
    gross_pay: AmountPairModel
    overtime_pay: AmountPairModel
    garnishments: AmountPairModel
    loans401_k: AmountPairModel
    bonus_pay: AmountPairModel
    commission_pay: AmountPairModel
    tips_pay: AmountPairModel
    sick_pay: AmountPairModel
    vacation_pay: AmountPairModel
    net_pay: AmountPairModel
    earnings: tuple[Any, ...]
    deductions: tuple[Any, ...]
    taxes: tuple[Any, ...]


class DocumentModel(Model):
    document_id: str
    file_ids: tuple[str, ...]
    file_reference_ids: tuple[str, ...]
    url: str
    extracted_data: dict[str, Any]
    updated_at: AwareDatetime
    data_action: str
    pages: Any = None


class PaystubDocumentModel(DocumentModel):
    extracted_data: PaystubModel  # type: ignore[assignment]


class DocumentsByTypeModel(Model):
    paystub: tuple[PaystubDocumentModel, ...] = ()
    w2: tuple[DocumentModel, ...] = ()


class DocumentsModel(Model):
    application_id: str
    application_reference_id: str
    documents: DocumentsByTypeModel


def _amount(value: Any) -> Decimal | None:
    if type(value) is Decimal:
        return value
    if type(value) is int:
        return Decimal(value)
    if value != "":
        raise TypeError
    return None


def _settle_amounts(pair: Any) -> None:
    # A decimal beside a text is no union that the library knows.
    msgspec.structs.force_setattr(pair, "current", _amount(pair.current))
    msgspec.structs.force_setattr(pair, "ytd", _amount(pair.ytd))


_OTHER_TYPES: Final[Mapping[Any, Any]] = {
    Amount: Any,
    AwareDatetime: Annotated[datetime, msgspec.Meta(tz=True)],
    NaiveDatetime: Annotated[datetime, msgspec.Meta(tz=False)],
}


@functools.cache
def struct_of(model: type[Model]) -> type[msgspec.Struct]:
    """Return the frozen struct with the fields of a model, and the same within it."""
    hints = get_type_hints(model, include_extras=True)
    namespace = {"__post_init__": _settle_amounts} if model is AmountPairModel else None
    return msgspec.defstruct(
        f"{model.__name__}Struct",
        [
            (name, _struct_type(hints[name]), info.get_default())
            if not info.is_required()
            else (name, _struct_type(hints[name]))
            for name, info in model.model_fields.items()
        ],
        frozen=True,
        kw_only=True,
        namespace=namespace,
    )


def _struct_type(kind: Any) -> Any:
    if kind in _OTHER_TYPES:
        return _OTHER_TYPES[kind]
    if isinstance(kind, type) and issubclass(kind, Model):
        return struct_of(kind)
    if isinstance(kind, UnionType):
        return functools.reduce(operator.or_, map(_struct_type, get_args(kind)))
    if get_origin(kind) in {tuple, dict}:
        return get_origin(kind)[tuple(map(_struct_type, get_args(kind)))]
    return kind


def struct_decoder(model: type[Model]) -> Callable[[bytes], object]:
    """Return what reads a text into the struct of a model, its amounts exact."""
    return msgspec.json.Decoder(struct_of(model), float_hook=Decimal).decode
