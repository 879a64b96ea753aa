"""Whether a loan can be afforded."""

from decimal import Decimal

from income_client import IncomeClient, NotFoundError


async def decide(client: IncomeClient, application_id: str, loan: Decimal) -> str:
    """Return "granted", "refused", "looked into" or "unknown"."""
    try:
        application = await client.get_application(application_id)
    except NotFoundError:
        return "unknown"
    calculations = application.income_calculations.values()
    if any(calculation.suspected_fraudulent.document_ids for calculation in calculations):
        return "looked into"
    totals = (income.total for one in calculations for income in one.incomes)
    return "granted" if sum(totals, Decimal(0)) * 4 >= loan else "refused"
