"""Options for how an emulated service behaves."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from attrs import fields_dict

from income_client.cli.app import run
from income_client.cli.emulating.rules import RuleOptions
from income_client.emulator import FutureBounds, Order, ServiceRules, SpanClamp
from income_client.emulator.seconds import START, second_of

CHANGED: dict[str, tuple[dict[str, Any], Any]] = {
    "lower_closed": ({"bounds": "after"}, True),
    "upper_closed": ({"bounds": "both"}, True),
    "order": ({"order": Order.RANDOM}, Order.RANDOM),
    "max_span": ({"max_span": 60}, 60),
    "span_clamp": ({"span_clamp": SpanClamp.BEFORE}, SpanClamp.BEFORE),
    "oldest": ({"oldest": START}, second_of(START)),
    "future": ({"future": FutureBounds.REFUSE}, FutureBounds.REFUSE),
    "default_span": ({"default_span": 0}, 0),
    "visibility_delay": ({"visibility_delay": 3}, 3),
    "clock_offset": ({"clock_offset": -9}, -9),
    "token_lifetime": ({"token_lifetime": 10}, 10),
    "url_lifetime": ({"expiry": 5}, 5),
    "url_age": ({"url_age": 4}, 4),
    "url_signed_once": ({"url_signed_once": True}, True),
    "file_bytes": ({"file_size": 10**6}, 10**6),
    "file_redirects": ({"file_redirects": 2}, 2),
}


def test_every_rule_has_an_option() -> None:
    """What the emulator can be told in Python it can be told on the command line."""
    assert CHANGED.keys() == fields_dict(ServiceRules).keys()


def test_the_usual_service_is_the_same() -> None:
    """Without options the rules are those of an emulator that is told nothing."""
    assert RuleOptions().rules == ServiceRules()


@pytest.mark.parametrize("name", CHANGED)
def test_an_option_changes_its_rule(name: str) -> None:
    """Each option says what its rule says."""
    options, value = CHANGED[name]
    assert getattr(RuleOptions(**options).rules, name) == value
    assert getattr(ServiceRules(), name) != value


@pytest.mark.parametrize(
    ("bounds", "closed"),
    [
        ("neither", (False, False)),
        ("after", (True, False)),
        ("before", (False, True)),
        ("both", (True, True)),
    ],
)
def test_bounds(bounds: Any, closed: tuple[bool, bool]) -> None:
    """The name says which bound's very second is in the window."""
    rules = RuleOptions(bounds=bounds).rules
    assert (rules.lower_closed, rules.upper_closed) == closed


def test_a_time_is_the_services() -> None:
    """A time with a zone is turned into service time."""
    there = START.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=5)))
    assert RuleOptions(oldest=there).rules == RuleOptions(oldest=START).rules
    early = datetime(1970, 1, 1)  # noqa: DTZ001 - service time
    assert RuleOptions(oldest=early).rules.oldest == 0


def test_help_lists_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The help has a table of its own for them."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["emulate", "--help"]) == 0
    _, _, table = capsys.readouterr().out.partition("How the service behaves")
    options = set(re.findall(r"^│ (--[a-z-]+)", table, re.MULTILINE))
    names = {"bounds" if "closed" in name else name for name in CHANGED}
    renamed = {"url_lifetime": "expiry", "file_bytes": "file_size"}
    expected = {f"--{renamed.get(name, name).replace('_', '-')}" for name in names}
    assert expected <= options


@pytest.mark.parametrize(
    "arguments",
    [
        ("--order", "sorted"),
        ("--bounds", "open"),
        ("--max-span", "0"),
        ("--expiry", "0"),
        ("--file-size", "big"),
        ("--file-redirects", "-1"),
        ("--oldest", "yesterday"),
        ("--faults", "500"),
    ],
)
def test_misuse_exits_with_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be meant is explained with the option's name, and nothing is begun."""
    assert run(["emulate", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert arguments[0] in shown.err
