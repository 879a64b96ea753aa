"""The service's own JSON with every private value replaced by one that can be searched for."""

import json
from typing import Any

from income_client import IncomeClient, to_json
from income_client.emulator import Emulator
from tests.support.canaries import CANARY

PAY = 90817263.43
BORN = "1913-02-03"
PRIVATE = {
    "first_name": f"{CANARY}-first",
    "last_name": f"{CANARY}-last",
    "email": f"{CANARY}@mail.example",
    "phone": "90817263001",
    "ssn": "90817263002",
    "date_of_birth": BORN,
    "street_address": f"{CANARY}-street",
    "city": f"{CANARY}-city",
    "zip": "90817263003",
    "calculated_income_amount": PAY,
    "file_reference_id": f"{CANARY}-file.pdf",
    "current": PAY,
    "ytd": PAY,
    "employer_name": f"{CANARY}-employer",
    "url": f"https://{CANARY}.s3.amazonaws.com/a?X-Amz-Signature={CANARY}",
}
TRACES = (CANARY, "90817263", BORN, "1913, 2, 3")
ONE = "app-1"
APPLICATION = f"/v1/income/applications/{ONE}"

FIRST_SOURCE = ("income_calculations", "applicant1", "incomes", 0, "income_sources", 0)

Broken = tuple[tuple[str | int, ...], Any]
BROKEN_APPLICATIONS: dict[str, Broken] = {
    "ssn is a number": (("applicants", "applicant1", "ssn"), 90817263002),
    "birthday is none": (("applicants", "applicant1", "date_of_birth"), f"{CANARY}-day"),
    "birthday is impossible": (("applicants", "applicant1", "date_of_birth"), "90817263-02-30"),
    "pay is a text": (
        (*FIRST_SOURCE, "calculated_income_amount"),
        "90817263.43",
    ),
    "addresses are a text": (("applicants", "applicant1", "address_info"), f"{CANARY}-address"),
    "applicant is a list": (("applicants", "applicant1"), [f"{CANARY}-applicant"]),
    "update time is none": (("last_updated_at",), f"{CANARY}-time"),
}
BROKEN_DOCUMENTS: dict[str, Broken] = {
    "address is a list": (("url",), [f"https://{CANARY}.example"]),
    "gross pay is a text": (("extracted_data", "gross_pay", "current"), "90817263.43"),
    "pay day is none": (("extracted_data", "pay_date"), f"{CANARY}-day"),
    "file names are a text": (("file_reference_ids",), f"{CANARY}-file.pdf"),
}


def poisoned(value: Any, key: str = "") -> Any:
    """Return JSON of the same shape whose private values are all canaries."""
    match value:
        case dict():
            return {name: poisoned(one, name) for name, one in value.items()}
        case list():
            return [poisoned(one, key) for one in value]
        case _:
            return PRIVATE.get(key, value) if value not in ("", None) else value


def broken(value: Any, fault: Broken) -> bytes:
    """Return JSON text with one wrong value."""
    (*steps, last), wrong = fault
    place = value
    for step in steps:
        place = place[step]
    place[last] = wrong
    return json.dumps(value).encode()


async def bodies(client: IncomeClient, service: Emulator) -> tuple[Any, Any, Any]:
    """Return a poisoned application, poisoned documents, and one of these that is a paystub."""
    for one in service.world.ids:
        documents = poisoned(json.loads(to_json(await client.get_documents(one))))
        if documents["documents"].get("paystub"):
            break
    application = poisoned(json.loads(to_json(await client.get_application(one))))
    application["application_id"] = documents["application_id"] = ONE
    return application, documents, documents["documents"]["paystub"][0]
