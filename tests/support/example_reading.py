"""How the examples of the guide's page on reading are run, and what must come of each."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from income_client.emulator import Emulator, Fault
from tests.support.examples import RunExample, python


async def reads_the_last_week(service: Emulator, path: Path) -> None:
    """Each application of the last seven days is read, and one that fails is named."""
    lines = await python(service, path.parent, path.name)
    ids = [line.split()[0] for line in lines]
    assert 1 < len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"app-[0-9a-f]{10} [0-9-]{10} [0-9:]{8}\+00:00", one) for one in lines)
    service.faults.add(Fault("status", status=404, path=f"*/{ids[0]}"))
    again = await python(service, path.parent, path.name)
    assert [line for line in again if " not read: " in line] == [again[ids.index(ids[0])]]
    assert [line.split()[0] for line in again] == ids


RUN: Final[Mapping[str, RunExample]] = {
    "last_week.py": reads_the_last_week,
}
