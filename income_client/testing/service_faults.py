"""The faults of a service that runs in another thread; knows no single kind of fault."""

from collections.abc import Iterable
from functools import partial
from typing import TypeAlias

from income_client import ConfigurationError
from income_client.clock import Clock
from income_client.emulator import Fault

from .fault_scripts import script
from .given_service import GivenEmulator
from .loop_thread import LoopThread
from .planned_faults import armed

FaultPlan: TypeAlias = str | Fault | Iterable[Fault]
"""A script as text, a fault, or several such as ``outage(30)`` returns."""


class ServiceFaults:
    """Misbehaviour to be played, in the order in which it was added.

    Args:
        emulator: whose.
        thread: where that runs.
        clock: what the service's time passes by; None where it is moved by hand only.
    """

    def __init__(self, emulator: GivenEmulator, thread: LoopThread, clock: Clock | None) -> None:
        self._emulator = emulator
        self._thread = thread
        self._clock = clock

    def __len__(self) -> int:
        return self._thread.call(self._emulator.faults.__len__)

    def add(self, *plans: FaultPlan) -> None:
        """Add faults behind those that are there; spans of time begin now.

        Args:
            *plans: text as in `script`, a `Fault`, or what a function such as `outage`
                returns.

        Raises:
            ConfigurationError: a text cannot be read, or something else was given.
        """
        self._thread.call(partial(self.plan, *plans))

    def clear(self) -> None:
        """Forget all faults."""
        self._thread.call(self._emulator.faults.clear)

    def plan(self, *plans: FaultPlan) -> None:
        """Add faults as `add` does, from the emulator's own thread or before it runs.

        Args:
            plans: scripts, troubles and single faults.
        """
        faults = [fault for plan in plans for fault in _faults_of(plan)]
        self._emulator.faults.add(*[armed(fault, self._seconds) for fault in faults])

    def _seconds(self) -> float:
        """Return the service's time since some fixed moment; its own present is a whole second."""
        passed = 0.0 if self._clock is None else self._clock.monotonic()
        return self._emulator.advanced + passed


def _faults_of(plan: FaultPlan) -> Iterable[Fault]:
    if isinstance(plan, str):
        return script(plan)
    if isinstance(plan, Fault):
        return (plan,)
    if isinstance(plan, Iterable):
        return plan
    raise ConfigurationError(f"a fault is a script or a Fault, not {type(plan).__name__}")
