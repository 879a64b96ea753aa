"""Which fault falls on which request."""

from typing import Any

import pytest

from income_client.emulator import Fault, FaultKind, Faults, ServiceRules
from income_client.emulator.faults import replacement
from income_client.errors import ConfigurationError


def _statuses(faults: Faults, requests: int, path: str = "/token") -> list[int | None]:
    taken = [faults.take("GET", path) for _ in range(requests)]
    return [None if fault is None else fault.status for fault in taken]


def test_faults_are_used_up_in_order() -> None:
    """Each fault falls on as many requests as it says, the first in the list first."""
    faults = Faults()
    faults.add(Fault("status", status=500, times=2), Fault("status", status=503))
    assert _statuses(faults, 4) == [500, 500, 503, None]
    assert len(faults) == 0


def test_endless_faults() -> None:
    """A fault without a count stays until it is cleared."""
    faults = Faults()
    faults.add(Fault("status", status=500, times=None))
    assert _statuses(faults, 3) == [500, 500, 500]
    faults.clear()
    assert _statuses(faults, 1) == [None]


def test_faults_let_requests_pass() -> None:
    """A fault that skips requests leaves them to those behind it."""
    faults = Faults()
    faults.add(Fault("status", status=500, skip=2), Fault("status", status=503))
    assert _statuses(faults, 4) == [503, None, 500, None]


def test_faults_match_path_and_method() -> None:
    """A fault falls only on requests whose path and method fit its patterns."""
    faults = Faults()
    faults.add(Fault("reset", path="/v1/*/documents", method="GET", times=None))
    assert faults.take("GET", "/v1/income/applications/x/documents") is not None
    assert faults.take("GET", "/v1/income/applications/x") is None
    assert faults.take("POST", "/v1/income/applications/x/documents") is None


def test_replacements() -> None:
    """Status, redirect and body stand in for the reply; the other kinds need the wire."""
    kinds = {kind: replacement(Fault(kind, location="/else", body=b"x")) for kind in FaultKind}
    found = {kind.value: reply.status for kind, reply in kinds.items() if reply is not None}
    assert found == {"status": 503, "redirect": 307, "body": 200}
    redirect = kinds[FaultKind.REDIRECT]
    assert redirect is not None
    assert redirect.headers["Location"] == "/else"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "slow"}, "a fault is one of status, reset"),
        ({"times": 0}, "times is 1 or more"),
        ({"times": 1.5}, "times is a whole number"),
        ({"skip": -1}, "skip is 0 or more"),
        ({"skip": None}, "skip is a whole number"),
        ({"path": None}, "path is a str"),
        ({"status": "503"}, "status is a whole number"),
        ({"headers": "Retry-After: 1"}, "headers is a mapping"),
        ({"body": "{}"}, "body is bytes"),
        ({"keep": -1}, "keep is 0 or more"),
        ({"interval": -1}, "interval is a number, 0 or more"),
    ],
)
def test_impossible_faults(settings: dict[str, Any], said: str) -> None:
    """A fault that cannot be meant is a configuration error that says what can."""
    with pytest.raises(ConfigurationError, match=said):
        Fault(**({"kind": "drop"} | settings))


@pytest.mark.parametrize("wrong", ["reset", FaultKind.RESET, None])
def test_only_faults_can_be_added(wrong: Any) -> None:
    """The name of a fault is no fault, and is refused where it is added."""
    with pytest.raises(ConfigurationError, match="a fault is a Fault"):
        Faults().add(wrong)


@pytest.mark.parametrize(
    "knobs",
    [
        {"order": "sideways"},
        {"span_clamp": "both"},
        {"future": "perhaps"},
        {"max_span": 0},
        {"token_lifetime": 0},
        {"visibility_delay": -1},
        {"default_span": -1},
        {"token_lifetime": 1.5},
        {"token_lifetime": None},
        {"url_lifetime": True},
        {"url_age": -1},
        {"url_signed_once": 1},
        {"file_bytes": 0},
        {"file_redirects": -1},
        {"clock_offset": "1"},
        {"upper_closed": "no"},
    ],
)
def test_impossible_rules(knobs: dict[str, Any]) -> None:
    """Rules that cannot be meant are a configuration error."""
    with pytest.raises(ConfigurationError):
        ServiceRules(**knobs)
