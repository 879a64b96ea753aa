"""Whether a loan can be afforded."""

import enum
from decimal import Decimal

from income_client import Application, IncomeClient, NotFoundError

_LOAN_TO_INCOME = 4


class Decision(enum.Enum):
    """What becomes of a request for a loan."""

    GRANTED = "granted"
    REFUSED = "refused"
    LOOKED_INTO = "looked into"
    UNKNOWN = "unknown"


def income_of(application: Application) -> Decimal:
    """Return what all applicants earned in their latest years."""
    latest = (
        max(calculation.incomes, key=lambda income: income.year)
        for calculation in application.income_calculations.values()
        if calculation.incomes
    )
    return sum(
        (source.calculated_income_amount for year in latest for source in year.income_sources),
        start=Decimal(0),
    )


async def decide(client: IncomeClient, application_id: str, loan: Decimal) -> Decision:
    """Decide about a loan."""
    try:
        application = await client.get_application(application_id)
    except NotFoundError:
        return Decision.UNKNOWN
    calculations = application.income_calculations.values()
    if any(calculation.suspected_fraudulent.document_ids for calculation in calculations):
        return Decision.LOOKED_INTO
    enough = income_of(application) * _LOAN_TO_INCOME >= loan
    return Decision.GRANTED if enough else Decision.REFUSED
