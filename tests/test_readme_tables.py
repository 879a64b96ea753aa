"""The tables of the README are whole: knobs, faults, arguments and methods."""

import inspect
import re

from attrs import fields_dict

from income_client import CheckpointStore, IncomeClient
from income_client.emulator import CallbackTarget, Fault, FaultKind, ServiceRules
from income_client.receivers import CallbackReceiver
from tests.readme import README


def test_every_knob_and_fault_is_in_its_table() -> None:
    """The tables name each field of the rules and of a fault, and each kind of fault."""
    named = set(re.findall(r"`\"?(\w+)\"?`", "\n".join(re.findall(r"^\|.*", README, re.MULTILINE))))
    assert set(fields_dict(ServiceRules)) <= named
    assert set(fields_dict(Fault)) - {"kind"} <= named
    assert set(fields_dict(CallbackTarget)) - {"url"} <= named
    assert {kind.value for kind in FaultKind} <= named


def test_every_argument_of_what_runs_for_long_is_in_a_table() -> None:
    """The tables name what `poll` and a receiver take, and the methods of a store."""
    rows = "\n".join(re.findall(r"^\|.*", README, re.MULTILINE))
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", rows))))
    assert set(inspect.signature(IncomeClient.poll).parameters) - {"self", "checkpoints"} <= named
    assert set(inspect.signature(CallbackReceiver).parameters) - {"on_callback", "clock"} <= named
    for method in ("load", "save", "dead_letters"):
        parameters = inspect.signature(getattr(CheckpointStore, method)).parameters
        assert {method, *parameters} - {"self"} <= named
