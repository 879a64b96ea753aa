"""What the service's replies mean, as frozen values; how they are written is not known here."""

from .applications import (
    Address,
    AddressEntry,
    Applicant,
    Application,
    ApplicationPage,
    ApplicationSummary,
    DataSources,
    ImageFile,
    IncomeCalculation,
    IncomeSource,
    SuspectedFraudulent,
    YearlyIncome,
)
from .documents import ApplicationDocuments, ApplicationRecord, Document, DocumentEntry
from .fields import FrozenDict
from .paystub import AmountPair, Paystub, PaystubAddress, PaystubApplicant
from .window import Window

__all__ = [
    "Address",
    "AddressEntry",
    "AmountPair",
    "Applicant",
    "Application",
    "ApplicationDocuments",
    "ApplicationPage",
    "ApplicationRecord",
    "ApplicationSummary",
    "DataSources",
    "Document",
    "DocumentEntry",
    "FrozenDict",
    "ImageFile",
    "IncomeCalculation",
    "IncomeSource",
    "Paystub",
    "PaystubAddress",
    "PaystubApplicant",
    "SuspectedFraudulent",
    "Window",
    "YearlyIncome",
]
