"""A first failure loads nothing: what it needs was loaded before the first call.

A poller that was healthy for weeks meets its first failure when all files are open that may be, or
after a deploy has replaced the installed packages.
"""

import sys
from typing import Final

import pytest

from income_client.testing import Fault, IncomeService
from tests.support.processes import environment, started

STARVED: Final = (sys.executable, "-m", "tests.client.starved")
STATUSES: Final = (201, 302, 400, 401, 403, 404, 408, 429, 500, 503)
PAGE_OF_ONE_BAD_ROW: Final = (
    b'{"updated_after": "2020-01-01T00:00:00", "updated_before": "2026-01-01T00:00:00",'
    b' "applications": [{"application_id": 7}]}'
)
OTHERS: Final = (
    *(Fault("status", path="*/v1/*", times=None, status=status) for status in STATUSES),
    Fault("status", path="*/v1/*", times=None, status=429, retry_after=0),
    *(
        Fault(kind, path="*/v1/*", times=None)
        for kind in ("reset", "drop", "cut", "stall", "garbage", "redirect")
    ),
    Fault("body", path="*/v1/*", times=None, body=b"{"),
    Fault("body", path="*/v1/*", times=None, body=b"\xff"),
    Fault("body", path="*/v1/*", times=None, body=b'{"application_id": 7}'),
    Fault("body", path="*/v1/*", times=None, body=b"<html>", content_type="text/html"),
    Fault("body", path="*/v1/*", times=None, body=b"x", headers={"Content-Encoding": "gzip"}),
    Fault("body", path="*/applications", times=None, body=PAGE_OF_ONE_BAD_ROW),
)
OF_FILES: Final = (
    *(Fault("status", call="file", times=None, status=status) for status in STATUSES),
    *(
        Fault(kind, call="file", times=None)
        for kind in ("reset", "drop", "cut", "stall", "garbage", "redirect")
    ),
)
OF_TOKENS: Final = (
    Fault("status", call="token", times=None, status=401),
    Fault("status", call="token", times=None, status=503),
)


@pytest.mark.parametrize("what", ["call", "walk", "records", "poll", "download"])
def test_a_first_failure_imports_nothing(what: str) -> None:
    """Each kind of failure is an error of the package, or passes, with no module to be had."""
    failures: list[list[Fault]] = [
        [fault] for fault in (OF_FILES if what == "download" else OTHERS)
    ]
    refused = Fault("status", path="/v1/*", times=None, status=401)
    failures += [[refused, fault] for fault in OF_TOKENS]
    with (
        IncomeService(1) as service,
        started(*service.ids, what, env=environment(service), command=STARVED) as process,
    ):
        process.stdout.wait_for("ready\n")
        for count, faults in enumerate(failures, start=2):
            service.faults.clear()
            service.faults.add(faults)
            process.write("\n")
            line = process.stdout.wait_for_lines(count)[-1]
            assert line in ("fine []", "IncomeClientError []"), faults


def test_a_first_failure_opens_no_file() -> None:
    """A poller outlives that no file and no connection can be opened, and delivers what came."""
    with (
        IncomeService(1) as service,
        started(*service.ids, "descriptors", env=environment(service), command=STARVED) as process,
    ):
        process.stdout.wait_for("1 records, 0 failures\n")
        service.touch(*service.ids)
        service.advance(10)
        service.faults.add(Fault("reset", path="/v1/*"))
        process.write("\n")
        process.stdout.wait_for("1 records, 2 failures\n")
