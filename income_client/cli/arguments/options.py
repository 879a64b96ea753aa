"""Kinds of options that several sub-commands have; knows not what any is for."""

from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

Switch = Annotated[bool, Parameter(negative=(), show_default=False)]
"""An option without a value."""
Seconds = Annotated[float, Parameter(validator=Number(gte=0))]
"""A span of time."""
WholeSeconds = Annotated[int, Parameter(validator=Number(gte=0))]
"""The same where a part of a second has no meaning."""
TableOrJson = Annotated[Literal["table", "json"], Parameter(name=("--output", "-o"))]
"""How one thing is shown, of which there are no rows."""
