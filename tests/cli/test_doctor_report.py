"""Facts of any kind make a report, and each kind of fact its verdict."""

from typing import Any, Final

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from income_client.cli.checking.facts import (
    Calls,
    Certificate,
    Facts,
    Finding,
    Spoken,
    Trouble,
    Verdict,
)
from income_client.cli.checking.list_facts import Clamp, Future, Limits, ListFacts
from income_client.cli.checking.report import findings_of, status_of
from income_client.cli.checking.times import Reading
from tests.cli.doctoring import by_check
from tests.cli.fine_facts import CONFIGURATION, DAY, FINE, HOST, TLS, TROUBLE


def finding(check: str, facts: Facts) -> Finding:
    """Return one line of the report."""
    return by_check(facts)[check]


def host(**changes: Any) -> Facts:
    """Return fine facts but for the server."""
    return evolve(FINE, hosts=(evolve(HOST, **changes),))


_SECONDS: Final = st.floats(-1e9, 1e9)
_READINGS: Final = st.lists(
    st.builds(Reading, second=st.integers(0, 10**6), sent_at=_SECONDS, received_at=_SECONDS),
    max_size=2,
).map(tuple)
_HOSTS: Final = st.builds(
    evolve,
    st.just(HOST),
    addresses=st.sampled_from([("203.0.113.4",), TROUBLE]),
    is_literal=st.booleans(),
    connected=st.sampled_from([TLS, evolve(TLS, tls=None, certificate=None), TROUBLE, None]),
    spoken=st.none()
    | st.just(TROUBLE)
    | st.builds(Spoken, answers=st.integers(1, 3), asked=st.just(3), dates=_READINGS),
)
_ROWS: Final = st.integers(0, 1200)
_ALL_LISTS: Final = st.builds(
    ListFacts,
    limits=st.none()
    | st.builds(
        Limits,
        default_rows=_ROWS,
        large=_ROWS,
        small_limit=_ROWS,
        small=_ROWS,
        hidden=st.none() | _ROWS,
        repeats=st.none() | st.booleans(),
    ),
    default_span=st.none() | _ROWS,
    starts_at_the_beginning=st.booleans(),
    ends_at_the_present=st.booleans(),
    clamp=st.sampled_from(Clamp),
    clamp_seconds=st.none() | _ROWS,
    future=st.sampled_from(Future),
    update_seconds=st.lists(_ROWS, max_size=6).map(tuple),
    unread=st.lists(st.just("NotFoundError: 404"), max_size=2).map(tuple),
    shift=_ROWS,
    presents=_READINGS,
)
_FACTS: Final = st.builds(
    Facts,
    configuration=st.sampled_from([CONFIGURATION, evolve(CONFIGURATION, proxy="proxy:1"), TROUBLE]),
    proxies=st.sampled_from([(), ("HTTPS_PROXY",)]),
    hosts=_HOSTS.map(lambda host: (host,))
    | st.tuples(_HOSTS, _HOSTS.map(lambda host: evolve(host, role="token endpoint"))),
    accepted=st.sampled_from([True, None, TROUBLE, evolve(TROUBLE, kind="AuthenticationError")]),
    calls=st.builds(
        Calls,
        seconds=st.lists(_SECONDS, max_size=3).map(tuple),
        made=_ROWS,
        throttled=_ROWS,
        retry_after=st.none() | _SECONDS,
    ),
    lists=st.none() | _ALL_LISTS,
)


@given(facts=_FACTS)
def test_any_facts_make_a_report(facts: Facts) -> None:
    """There is a line for each check, and the status says whether one failed."""
    findings = findings_of(facts)
    names = [each.check for each in findings]
    assert len(names) == len(set(names))
    assert {"configuration", "credentials", "bounds", "service time"} <= set(names)
    assert all(each.finding for each in findings)
    verdicts = {each.verdict for each in findings}
    status = status_of(facts, findings)
    assert (status == 0) <= (Verdict.FAILED not in verdicts)
    skipped = {each.check: each.cause for each in findings if each.cause is not None}
    stopping = {
        each.check for each in findings if each.verdict in {Verdict.FAILED, Verdict.SKIPPED}
    }
    assert set(skipped.values()) <= stopping - set(skipped)


def test_a_fine_service_has_nothing_failed() -> None:
    """All is ok, but that bounds cannot be told without rows."""
    findings = findings_of(FINE)
    others = [each for each in findings if each.verdict is not Verdict.OK]
    assert [(each.check, each.verdict) for each in others] == [("bounds", Verdict.NOTE)]
    assert status_of(FINE, findings) == 0


@pytest.mark.parametrize(
    ("changes", "failed"),
    [({"addresses": TROUBLE, "connected": None}, "DNS"), ({"connected": TROUBLE}, "connection")],
)
def test_what_builds_on_a_failure_is_skipped(changes: dict[str, Any], failed: str) -> None:
    """Behind a failure there is nothing to see, and each line says so."""
    facts = evolve(host(**changes), accepted=None, lists=None)
    found = by_check(facts)
    assert found[failed].verdict is Verdict.FAILED
    for check in ("certificate", "clock", "credentials", "bounds", "latency"):
        assert found[check].verdict is Verdict.SKIPPED
        assert found[check].cause == failed
    assert status_of(facts, tuple(found.values())) == 1


def test_the_token_endpoint_has_lines_of_its_own() -> None:
    """Where it is another server, credentials need both."""
    other = evolve(HOST, role="token endpoint", connected=TROUBLE)
    found = by_check(evolve(FINE, hosts=(HOST, other), accepted=None))
    assert found["connection"].verdict is Verdict.OK
    assert found["connection (token endpoint)"].verdict is Verdict.FAILED
    assert found["credentials"].cause == "connection (token endpoint)"


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("AuthenticationError", 4),
        ("PermissionDeniedError", 4),
        ("ServerError", 1),
        ("DecodeError", 1),
        ("RateLimitedError", 1),
        ("AnythingElse", 1),
    ],
)
def test_refused_credentials_are_4(kind: str, status: int) -> None:
    """Every refusal comes with an advice; those of the credentials have a status of their own."""
    facts = evolve(FINE, accepted=Trouble(kind=kind, text="no", request_id="r-1"), lists=None)
    said = finding("credentials", facts)
    assert said.verdict is Verdict.FAILED
    assert said.advice
    assert said.finding == "no (request id r-1)"
    assert status_of(facts, findings_of(facts)) == status


@pytest.mark.parametrize(
    ("days", "verdict"), [(90, Verdict.OK), (20.5, Verdict.NOTE), (6.5, Verdict.WARNING)]
)
def test_a_certificate_ends(days: float, verdict: Verdict) -> None:
    """Three weeks before its end it is worth a word, and a week before more than that."""
    certificate = Certificate(subject="a", issuer="b", seconds_left=days * DAY)
    facts = host(connected=evolve(TLS, certificate=certificate))
    assert finding("certificate", facts).verdict is verdict


@pytest.mark.parametrize(
    ("ahead", "verdict"),
    [(0, Verdict.OK), (2, Verdict.OK), (20, Verdict.NOTE), (-600, Verdict.WARNING)],
)
def test_clocks_differ(ahead: int, verdict: Verdict) -> None:
    """Some seconds are a note, and more than half a minute a warning."""
    dates = (Reading(second=1000 + ahead, sent_at=1000.2, received_at=1000.4),)
    spoken = Spoken(answers=3, asked=3, dates=dates)
    assert finding("clock", host(spoken=spoken)).verdict is verdict


def test_a_service_without_dates_has_no_clock_to_compare() -> None:
    """Nothing is said of a clock that nobody read."""
    spoken = Spoken(answers=1, asked=3, dates=())
    found = by_check(host(spoken=spoken))
    assert found["clock"].verdict is Verdict.SKIPPED
    assert found["service time"].verdict is Verdict.SKIPPED
    assert found["keep-alive"].verdict is Verdict.NOTE


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [((0.1, 0.1, 9.0), Verdict.OK), ((0.6,), Verdict.NOTE), ((3.0, 3.0), Verdict.WARNING)],
)
def test_slow_services(seconds: tuple[float, ...], verdict: Verdict) -> None:
    """The median decides, and one slow call does not."""
    assert finding("latency", evolve(FINE, calls=Calls(seconds=seconds))).verdict is verdict


def test_throttling_is_told_with_its_pause() -> None:
    """A 429 is a warning that says when it came and how long the pause is."""
    calls = Calls(made=13, throttled=1, retry_after=7.0)
    said = finding("rate limits", evolve(FINE, calls=calls))
    assert said.verdict is Verdict.WARNING
    assert said.finding == "429 at call 13, a pause of 7 s asked for"


def test_a_proxy_that_is_not_used_is_told() -> None:
    """By the name of its variable, since its address may hold a password."""
    said = finding("proxy", evolve(FINE, proxies=("HTTPS_PROXY",)))
    assert (said.verdict, said.finding) == (Verdict.NOTE, "HTTPS_PROXY set, and not used")


def test_a_configuration_that_is_missing_is_told_with_what_says_it() -> None:
    """The advice is for an account of one's own: variables, or the file."""
    trouble = Trouble(kind="configuration", text="set INCOME_BASE_URL")
    said = finding("configuration", Facts(configuration=trouble))
    assert "INCOME_CLIENT_ID and INCOME_CLIENT_SECRET" in said.advice
    assert "--config" in said.advice
    assert "emulate" not in said.advice


def test_each_source_is_named_once() -> None:
    """Variables by their names, and what a file gives by key."""
    assert finding("configuration", FINE).finding == (
        "https://api.example.com, OAuth 2.0 as abc…; "
        "INCOME_BASE_URL from the environment; client_id from ~/config.toml"
    )
