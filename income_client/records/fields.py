"""What the fields of records share: kinds of time, masks; knows no single record."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Final, TypeAlias

from .mapping import UntypedDict

ServiceTime: TypeAlias = Annotated[datetime, "without zone, in the service's frame"]
"""A naive time, as the service tells it."""

UtcTime: TypeAlias = Annotated[datetime, "aware, in UTC"]
"""A time that ends in Z on the wire."""

Amount: TypeAlias = Annotated[Decimal | None, "an absent amount is None"]
"""An amount that may be absent."""

NO_EXTRA: Final = UntypedDict()
"""The one empty mapping that all records without unknown fields share."""

BESIDE_THE_JSON: Final[Mapping[str, bool]] = {"beside_the_json": True}
"""Metadata of a field that is told by where a record was found, and is none of its members."""


def masked(_: object) -> str:
    """Return what the repr shows in place of anything about a borrower."""
    return "***"
