"""How the examples of the guide about testing are run."""

from collections.abc import Mapping
from typing import Final

from tests.support.examples import RunExample, passes

RUN: Final[Mapping[str, RunExample]] = {"test_updates.py": passes}
