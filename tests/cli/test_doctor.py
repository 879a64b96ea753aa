"""``income-client doctor``: what it finds out about a connection and a service."""

import json
import re
import socket
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, Final, Never

import pytest
import trustme

from income_client.emulator import Fault, ServiceRules
from income_client.emulator.times import START
from income_client.testing import IncomeService
from tests.support.cli import Cli, with_basic
from tests.support.emulated import served
from tests.support.processes import Ran, Terminal, beside
from tests.support.proxies import Change, changing, proxying, terminating, unchanged
from tests.support.server import accepting

DAY: Final = 86_400
LIST: Final = "/v1/income/applications"
PRESENT: Final = int(START.replace(tzinfo=UTC).timestamp())
"""Second of the emulated service's present."""
FIRST: Final = "0001-01-01T00:00:00"
LAST: Final = "9999-12-31T23:59:59"
MOST_REQUESTS: Final = 20
PROXY: Final = "http://user:hush@proxy.example:3128"
pytestmark = pytest.mark.income_service(applications=60)


Found = dict[str, dict[str, Any]]


def findings(ran: Ran) -> Found:
    """Return the findings by what they are about."""
    return {row["check"]: row for row in json.loads(ran.stdout)["findings"]}


class Doctor:
    """Runs the command; returns its status, and the findings by what they are about."""

    def __init__(self, shell: Cli) -> None:
        self.service: Final = shell.service
        self._shell = shell

    def __call__(self, **env: str) -> tuple[int, Found]:
        """Run it with these variables besides those that lead to the service."""
        ran = self._shell("doctor", "--output", "json", env=env)
        return ran.status, findings(ran)

    def past(self, *, requests: Change = unchanged, replies: Change = unchanged) -> Any:
        """Run it where something changes what it sends, or what the service sends."""
        with beside(changing(self.service.url, requests=requests, replies=replies)) as port:
            return self(INCOME_BASE_URL=f"http://127.0.0.1:{port}")


@pytest.fixture
def doctor(shell: Cli) -> Doctor:
    """The command on a service."""
    return Doctor(shell)


PAUSE: Final = {"Retry-After": "7"}


def no_token(kind: str = "status", **settings: Any) -> Fault:
    """Return a fault of every request for a token."""
    return Fault(kind, path="/token", times=None, **settings)


def refusing(kind: str = "status", *, path: str = LIST, **settings: Any) -> Fault:
    """Return a fault of every request with credentials."""
    return Fault(kind, path=path, method="GET", times=None, **settings)


def _five_hours_later(found: re.Match[bytes]) -> bytes:
    moment = datetime.fromisoformat(found[2].decode()) + timedelta(hours=5)
    return found[1] + moment.isoformat().encode()


def asking(old: bytes, new: bytes) -> dict[str, Change]:
    """Return what changes requests."""
    return {"requests": lambda piece: piece.replace(old, new)}


def dated(new: bytes) -> dict[str, Change]:
    """Return what changes the header Date of replies."""
    return {"replies": lambda piece: piece.replace(b"\r\nDate: ", new)}


NARROW: Final = {"max_span": 7 * DAY, "span_clamp": "before"}
LOCAL: Final = {"lower_closed": True, "clock_offset": 5 * 3600}
SHIFTED: Final[dict[str, Change]] = {
    "replies": lambda piece: re.sub(rb'("last_updated_at":")([-:0-9T]+)', _five_hours_later, piece)
}
UNDATED: Final = dated(b"\r\nDote: ")
MORE_ROWS: Final = pytest.mark.income_service(applications=2000)


@pytest.mark.parametrize(
    ("ages", "verdict", "words"),
    [
        (range(60, 10 * DAY, 600), "ok", "144 applications updated in 1 d"),
        (range(60, 2 * DAY, 30), "ok", "118 applications updated in 1 h, a rate of 2,832 a day"),
        ([30] * 1_500, "note", "1,000 applications updated in 1 min, a rate of 1,440,000 a day or"),
    ],
    ids=["few", "many", "more than a page"],
)
def test_updates_of_a_day_are_counted(
    ages: Sequence[int], verdict: str, words: str, cli: Cli
) -> None:
    with IncomeService(applications=[PRESENT - age for age in ages]) as service:
        found = Doctor(cli.at(service))()[1]["updates"]
    assert found["verdict"] == verdict
    assert words in found["finding"]


@pytest.mark.parametrize(
    ("rules", "changes", "check", "verdict", "words"),
    [
        (NARROW, {}, "limit", "note", "in the 7 d to which longer spans are narrowed, all that"),
        ({"max_span": 400 * DAY}, {}, "limit", "note", "in the 400 d to which longer spans are"),
        ({"max_span": 2}, {}, "applications", "note", "none is listed in the 2 s to which longer"),
        ({}, {}, "updates", "ok", "0 applications updated in 1 d"),
        ({"max_span": 3600}, {}, "updates", "ok", "0 applications updated in 1 h, a rate of 0 a"),
        ({"clock_offset": 40}, {}, "service time", "note", "40 s behind Date"),
        ({"clock_offset": 7200}, {}, "service time", "warning", "2 h from Date, and rows are not"),
        ({}, {}, "service time", "ok", "times without zone are UTC"),
        pytest.param({}, {}, "limit", "ok", "asked for 1000, got 1000", marks=MORE_ROWS),
        ({}, asking(b"limit=1000", b"limit=30"), "limit", "failed", "hid"),
        ({}, asking(b"limit=5 ", b"limit=25 "), "limit", "warning", "25 rows where 5 were asked"),
        ({}, asking(b"limit=5 ", b"limit=3 "), "limit", "warning", "3 rows where 5 were asked"),
        ({}, UNDATED, "clock", "skipped", ""),
        ({}, UNDATED, "service time", "skipped", ""),
        # The list's times may be hours from last_updated_at, as where they are local ones.
        (LOCAL, SHIFTED, "service time", "warning", "times without zone are UTC-05:00"),
    ],
)
def test_each_habit_of_the_service_is_found(
    rules: dict[str, Any],
    changes: dict[str, Change],
    check: str,
    verdict: str,
    words: str,
    doctor: Doctor,
) -> None:
    """Doctor reports the behaviour; only a page that hides rows without being full fails."""
    doctor.service.rules = ServiceRules(**rules)
    status, found = doctor.past(**changes)
    assert words in found[check]["finding"]
    assert found[check]["verdict"] == verdict
    failed = {row["check"] for row in found.values() if row["verdict"] == "failed"}
    assert (status, failed) == ((1, {check}) if verdict == "failed" else (0, set()))


@pytest.mark.parametrize(
    ("bad", "verdict"), [(0, "ok"), (3, "warning"), (60, "failed")], ids=["none", "some", "all"]
)
def test_applications_that_cannot_be_read_are_counted_without_ids(
    bad: int, verdict: str, doctor: Doctor
) -> None:
    if bad == len(doctor.service.ids):
        doctor.service.faults.add(refusing(path=f"{LIST}/*", status=404))
    elif bad:
        doctor.service.faults.add(Fault("status", path=f"{LIST}/*", status=404, times=bad))
    status, found = doctor()
    assert found["applications"]["verdict"] == verdict
    assert status == int(verdict == "failed")
    assert ("get_application(…): 404" in found["applications"]["finding"]) is bool(bad)


# Requests and credentials


@pytest.mark.parametrize(
    "settings",
    [
        {"applications": 5000},
        {"applications": 500, "max_span": 7 * DAY},
        {"applications": 40, "clock_offset": 7200},
    ],
    ids=["many", "narrow windows", "another clock"],
)
def test_it_asks_no_more_than_it_says(settings: dict[str, Any], cli: Cli) -> None:
    with IncomeService(**settings) as service:
        elsewhere = {"INCOME_AUTH_URL": service.url.replace("127.0.0.1", "localhost")}
        assert cli.at(service)("doctor", env=elsewhere).status == 0
        assert len(service.requests) <= MOST_REQUESTS
        assert service.max_in_flight == 1
        assert service.token_requests == 1
        assert {each.method for each in service.requests} == {"GET", "POST"}


@pytest.mark.parametrize(
    ("is_basic", "env", "status", "words"),
    [
        (False, {}, 0, "token was issued"),
        (False, {"INCOME_CLIENT_SECRET": "not-the-secret"}, 4, "client id and secret"),
        (True, {}, 0, "user name and password are accepted"),
        (True, {"INCOME_PASSWORD": "not-the-password"}, 4, "check user name and password"),
    ],
)
def test_credentials_are_judged_by_their_kind(
    is_basic: bool, env: dict[str, str], status: int, words: str, shell: Cli
) -> None:
    """Refused ones are 4, the advice shows neither part, and Basic ones need no token."""
    env = with_basic(shell.service, **env) if is_basic else env
    ran = shell("doctor", env=env)
    assert ran.status == status
    assert words in ran.words
    assert not any(text in ran.words for text in env.values() if text)
    assert bool(shell.service.token_requests) is not is_basic


LATER: Final = "try again later; another process may use the same credentials"
OWNER: Final = "later, then tell its owner"
SIGN_IN: Final[dict[str, Any]] = {
    "body": b"<html>Sign in</html>", "headers": {"Content-Type": "text/html"}
}  # fmt: skip
REFUSALS: Final[dict[str, tuple[Fault, int, str, str]]] = {
    "401": (refusing(status=401), 4, "401", "a token was issued, and the service refused it"),
    "403": (refusing(status=403), 4, "403", "what the account may read"),
    "404": (refusing(status=404), 1, "404", "the path of INCOME_BASE_URL"),
    "429": (refusing(status=429, headers=PAUSE), 1, "429 Too Many Requests (retry after 7", LATER),
    "500": (refusing(status=500, headers={"X-Request-Id": "r-42"}), 1, "request id r-42", OWNER),
    "not a page": (refusing("body", body=b'"x"'), 1, "object", "breaks the contract"),
    "HTML": (refusing("body", **SIGN_IN), 1, "text/html", "check INCOME_BASE_URL"),
    "redirect": (refusing("redirect"), 1, "307", "check INCOME_BASE_URL"),
    "reset": (refusing("reset"), 1, "connection", "try again"),
    "not HTTP": (refusing("garbage", body=b"hello"), 1, "HTTP", "check INCOME_BASE_URL"),
    "token: 400": (no_token(status=400), 4, "token: 400", "client id and secret"),
    "token: 401": (no_token(status=401), 4, "token: 401", "client id and secret"),
    "token: 403": (no_token(status=403), 4, "token: 403", "refuses this account"),
    "token: 404": (no_token(status=404), 1, "token: 404", "check INCOME_BASE_URL"),
    "token: 429": (no_token(status=429, headers=PAUSE), 1, "429 Too Many Requests (retry", LATER),
    "token: 503": (no_token(status=503), 1, "token: 503", OWNER),
    "token: HTML": (no_token("body", **SIGN_IN), 1, "token: ", "check INCOME_BASE_URL"),
    "token: redirect": (no_token("redirect"), 1, "token: ", "check INCOME_BASE_URL"),
    "token: no token": (no_token("body", body=b"{}"), 1, "access_token", "check INCOME_BASE_URL"),
    "token: reset": (no_token("reset"), 1, "token: ", "try again"),
}
"""A fault of the service or of its token endpoint; exit status, words of the finding, advice."""


@pytest.mark.parametrize("case", REFUSALS)
def test_each_refusal_has_its_advice(case: str, doctor: Doctor) -> None:
    """One row has the refusal and the advice, and a refused account has its own exit status.

    The other rows say that they need credentials, and no variable is named that is not set.
    """
    fault, status, words, advice = REFUSALS[case]
    doctor.service.faults.add(fault)
    ended, found = doctor()
    row = found["credentials"]
    assert (ended, row["verdict"]) == (status, "failed")
    assert words in row["finding"]
    assert advice in row["advice"]
    assert "INCOME_AUTH_URL" not in json.dumps(found)
    assert {found[name]["finding"] for name in ("applications", "limit", "service time")} == {
        "needs credentials"
    }


@pytest.mark.parametrize("status", [200, 401, 404])
def test_the_setting_to_check_is_named_where_it_is_set(status: int, doctor: Doctor) -> None:
    fault = refusing(status=401) if status == 401 else no_token(status=status)
    doctor.service.faults.add(fault)
    elsewhere = doctor.service.url.replace("127.0.0.1", "localhost")
    _, found = doctor(INCOME_AUTH_URL=elsewhere)
    assert "check that INCOME_AUTH_URL" in found["credentials"]["advice"] or (
        found["credentials"]["advice"].endswith("check INCOME_AUTH_URL")
    )


def test_a_rate_limit_ends_the_questions(doctor: Doctor) -> None:
    doctor.service.faults.add(refusing(status=429, skip=3, path="/v1/*", headers=PAUSE))
    status, found = doctor()
    assert (status, found["applications"]["verdict"]) == (0, "warning")
    assert found["applications"]["finding"] == "429 Too Many Requests (retry after 7 s)"
    assert found["applications"]["advice"] == LATER
    assert found["limit"]["verdict"] == "skipped"
    assert [each.status for each in doctor.service.requests].count(429) == 1


@pytest.mark.parametrize(
    ("kind", "skip"),
    [("status", 1), ("reset", 4), ("garbage", 9), ("cut", 1)],
)
def test_a_service_that_begins_to_fail_is_a_finding(kind: str, skip: int, doctor: Doctor) -> None:
    """Whichever request fails first and how: a report, without an id, and few requests more."""
    doctor.service.faults.add(refusing(kind, path="/v1/*", skip=skip))
    status, found = doctor()
    assert status in (0, 1)
    assert {"failed", "warning"} & {row["verdict"] for row in found.values()}
    assert not any(one in json.dumps(found) for one in doctor.service.ids)
    assert len(doctor.service.requests) - skip <= 10


@pytest.mark.parametrize(
    ("field", "time"),
    [
        ("last_updated_at", FIRST), ("last_updated_at", LAST), ("updated_after", FIRST),
        ("updated_before", LAST), ("Date", FIRST), ("Date", LAST),
    ],
)  # fmt: skip
def test_a_time_at_the_end_of_the_calendar_is_a_finding(
    field: str, time: str, doctor: Doctor
) -> None:
    date = format_datetime(datetime.fromisoformat(time).replace(tzinfo=UTC), usegmt=True)

    def change(piece: bytes) -> bytes:
        piece = re.sub(rf'("{field}":")[-:0-9T]+'.encode(), rb"\g<1>" + time.encode(), piece)
        return re.sub(rf"\r\n{field}: [^\r]+".encode(), f"\r\nDate: {date}".encode(), piece)

    status, found = doctor.past(replies=change)
    assert status in (0, 1)
    assert found["credentials"]["verdict"] == "ok"


# The connection


@pytest.mark.parametrize(
    ("address", "check", "status", "advice"),
    [
        ("https://127.0.0.1:1", "connection", 1, "nothing listens on this port"),
        (f"https://{'a' * 64}.example", "configuration", 2, "--config"),
        ("http://user:hush@example.com", "configuration", 2, "INCOME_PASSWORD"),
        ("", "configuration", 2, "income-client configure"),
    ],
    ids=["nothing listens", "impossible name", "password in it", "missing"],
)
def test_what_builds_on_a_failure_is_skipped(
    address: str, check: str, status: int, advice: str, doctor: Doctor
) -> None:
    ended, found = doctor(INCOME_BASE_URL=address)
    assert (ended, found[check]["verdict"]) == (status, "failed")
    assert advice in found[check]["advice"]
    assert found["credentials"]["finding"] == f"needs {check}"
    assert found["limit"]["verdict"] == "skipped"
    assert "hush" not in json.dumps(found)


def test_a_token_endpoint_that_is_down_is_reported(doctor: Doctor) -> None:
    status, found = doctor(INCOME_AUTH_URL="http://127.0.0.1:1/tenant-7")
    assert status == 1
    assert "127.0.0.1:1" in found["configuration"]["finding"]
    assert "tenant-7" not in json.dumps(found)
    assert found["connection"]["verdict"] == "ok"
    assert found["connection (token endpoint)"]["verdict"] == "failed"
    assert found["credentials"]["finding"] == "needs connection (token endpoint)"
    # Another run, so that the service has accepted the connection before it is stopped.
    assert doctor()[0] == 0


@pytest.mark.parametrize(
    ("name", "days", "verdict", "words"),
    [
        ("localhost", 40, "ok", "issued by An Authority, valid for 40 days"),
        ("localhost", 20, "note", "valid for 20 days"),
        ("localhost", 1, "warning", "valid for 1 day"),
        ("localhost", -1, "failed", "certificate has expired"),
        ("api.example.com", 40, "failed", "Hostname mismatch"),
        ("untrusted", 40, "failed", "unable to get local issuer certificate"),
    ],
)
def test_certificates_are_judged(
    name: str, days: int, verdict: str, words: str, tmp_path: Path, doctor: Doctor
) -> None:
    advice = {"expired": "clock is wrong: it says 20", "Hostname": "host name", "get": "CA_FILE"}
    authority = trustme.CA(organization_name="An Authority")
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    known = {} if name == "untrusted" else {"INCOME_CA_FILE": str(tmp_path / "authority.pem")}
    host = "localhost" if name == "untrusted" else name
    ends = datetime.now(UTC) + timedelta(days=days, hours=12)
    issued = authority.issue_cert(host, common_name=host, not_after=ends)
    with beside(terminating(issued, doctor.service.url)) as port:
        status, found = doctor(INCOME_BASE_URL=f"https://localhost:{port}", **known)
    row = found["connection"]
    assert (status, row["verdict"]) == (int(verdict == "failed"), verdict)
    assert re.search(rf"{words}\b", row["finding"])
    if status:
        assert row["finding"].startswith(f"certificate of localhost:{port}: ")
        assert any(word in words and said in row["advice"] for word, said in advice.items())
        assert found["credentials"]["finding"] == "needs connection"
        assert len(doctor.service.requests) == 0
    else:
        assert "TLSv1." in row["finding"]


def test_an_unknown_name_is_reported_as_such(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Never:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    status, found = doctor(INCOME_BASE_URL="https://income.example")
    assert (status, found["connection"]["verdict"]) == (1, "failed")
    expected = "name of income.example:443: name or service not known"
    assert found["connection"]["finding"] == expected
    assert "host name" in found["connection"]["advice"]


@pytest.mark.parametrize("after", [1, 65536], ids=["reset", "closed"])
def test_a_server_that_ends_the_tls_handshake_is_reported_as_such(
    after: int, doctor: Doctor
) -> None:
    with beside(accepting(lambda reader, _: reader.read(after))) as port:
        status, found = doctor(INCOME_BASE_URL=f"https://localhost:{port}")
    assert (status, found["connection"]["verdict"]) == (1, "failed")
    assert found["connection"]["finding"].startswith(f"TLS handshake of localhost:{port}: ")
    assert "the port serves https" in found["connection"]["advice"]


@pytest.mark.parametrize(
    ("ahead", "verdict"), [(0, "ok"), (20, "note"), (-600, "warning")], ids=str
)
def test_clocks_are_compared(ahead: int, verdict: str, cli: Cli) -> None:
    start = datetime.now(UTC).replace(tzinfo=None, microsecond=0) + timedelta(seconds=ahead)
    with IncomeService(20, start=start, time_flows=True) as service:
        ran = cli.at(service)("doctor", "-o", "json")
    assert findings(ran)["clock"]["verdict"] == verdict


# Proxies


@pytest.mark.parametrize(
    ("variables", "status", "check", "finding", "advice"),
    [
        *(({name: PROXY}, 0, "proxy", name.upper(), "") for name in ("HTTPS_PROXY", "all_proxy")),
        ({"INCOME_PROXY": "http://127.0.0.1:1"}, 1, "credentials", "", "proxy"),
    ],
)  # fmt: skip
def test_a_proxy_is_named(
    variables: dict[str, str], status: int, check: str, finding: str, advice: str, doctor: Doctor
) -> None:
    """An unused proxy is named by its variable, since its URL may contain a password."""
    ended, found = doctor(**variables)
    assert (ended, found[check]["verdict"]) == (status, "failed" if status else "note")
    assert finding in found[check]["finding"]
    assert advice in found[check]["advice"]
    assert "hush" not in str(found)


def test_what_a_proxy_hides_is_skipped(shell: Cli) -> None:
    with beside(proxying(shell.service.url)) as (port, _):
        proxy = f"http://user:hush@127.0.0.1:{port}"
        ran = shell("doctor", "-o", "json", env={"INCOME_PROXY": proxy})
    assert ran.status == 0
    found = findings(ran)
    assert found["proxy"]["finding"] == f"127.0.0.1:{port} of INCOME_PROXY is used"
    assert found["connection"]["verdict"] == "skipped"
    assert "DNS, TLS and certificate" in found["connection"]["finding"]
    assert found["credentials"]["verdict"] == "ok"
    assert found["clock"]["verdict"] == "warning"
    assert "hush" not in ran.words


# What is printed


def test_a_table_can_be_pasted_into_a_ticket(shell: Cli) -> None:
    ran = shell("doctor")
    assert ran.status == 0
    assert re.fullmatch(r"income-client: .*\b20 requests\b.*\n", ran.stderr)
    assert max(map(len, ran.lines)) <= 100
    for words in ("configuration", "credentials", "all that there are", "service time"):
        assert words in ran.stdout
    forbidden = {shell.service.oauth2.client_secret.reveal(), shell.service.oauth2.client_id}
    for application_id in shell.service.ids:
        application = served(shell.service, application_id)
        people = application["applicants"].values()
        forbidden |= {application_id, application["application_reference_id"]}
        forbidden |= {person["ssn"] for person in people}
    as_json = shell("doctor", "-o", "json")
    fields = {"check", "verdict", "finding", "advice"}
    assert all(set(row) == fields for row in json.loads(as_json.stdout)["findings"])
    assert not [text for text in forbidden if text in ran.words + as_json.words]


def test_a_terminal_gets_colour_and_words(shell: Cli) -> None:
    assert "\x1b[32mok" in shell("doctor", terminal=Terminal()).screen
    ran = shell("doctor", env={"PYTHONIOENCODING": "ascii"})
    assert (ran.status, ran.stdout.isascii()) == (0, True)
    assert "OAuth 2.0 as emu...; " in ran.stdout


def test_the_place_of_the_settings_is_named(cli: Cli, income_service: IncomeService) -> None:
    path, variables = cli.folder / "config.toml", income_service.environment
    path.write_text(
        f'base_url = "{income_service.url}"\n'
        f'client_id = "{variables["INCOME_CLIENT_ID"]}"\n'
        f'client_secret = "{variables["INCOME_CLIENT_SECRET"]}"\n'
    )
    path.chmod(0o600)
    authority = cli.folder / "authority.pem"
    trustme.CA().cert_pem.write_to_path(str(authority))
    other = {"INCOME_BASE_URL": "https://other.example", "INCOME_CA_FILE": str(authority)}
    ran = cli("doctor", "--config", str(path), "--output", "json", env=other)
    row = findings(ran)["configuration"]
    assert row["verdict"] == "ok"
    assert row["finding"].endswith(f"from {path}, also INCOME_CA_FILE")
    assert variables["INCOME_CLIENT_SECRET"] not in ran.stdout
