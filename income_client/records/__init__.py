"""Immutable values for the service's replies; JSON is read and written in ``wire``."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
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
    from .dead_letters import DeadLetter
    from .documents import (
        ApplicationDocuments,
        ApplicationRecord,
        Document,
        DocumentEntry,
        DocumentSource,
        PaystubEntry,
    )
    from .files import DownloadedFile, DownloadProgress
    from .paystub import AmountPair, Paystub, PaystubAddress, PaystubApplicant
    from .window import Window
else:
    from income_client._lazy import lazy_names

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
    "DeadLetter",
    "Document",
    "DocumentEntry",
    "DocumentSource",
    "DownloadProgress",
    "DownloadedFile",
    "ImageFile",
    "IncomeCalculation",
    "IncomeSource",
    "Paystub",
    "PaystubAddress",
    "PaystubApplicant",
    "PaystubEntry",
    "SuspectedFraudulent",
    "Window",
    "YearlyIncome",
]

NAMES: Final = {
    "applications": """
        Address AddressEntry Applicant Application ApplicationPage ApplicationSummary
        DataSources ImageFile IncomeCalculation IncomeSource SuspectedFraudulent YearlyIncome
    """,
    "dead_letters": "DeadLetter",
    "documents": """
        ApplicationDocuments ApplicationRecord Document DocumentEntry DocumentSource
        PaystubEntry
    """,
    "files": "DownloadProgress DownloadedFile",
    "paystub": "AmountPair Paystub PaystubAddress PaystubApplicant",
    "window": "Window",
}
"""Public names by the module that defines them."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, NAMES)
