"""A service whose list has malformed rows."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from income_client.testing import IncomeService

from .beside import beside
from .proxies import changing


class MalformedRows:
    """A service seen past something that spoils the date of some rows of its list.

    Attributes:
        env: the variables that lead a command there.
        is_mended: whether the rows are passed on as they are.
    """

    def __init__(self, application_ids: tuple[str, ...]) -> None:
        some = "|".join(application_ids)
        row = rf'("application_id":\s*"(?:{some})"[^}}]*"application_date":\s*")\d'
        self._rows = re.compile(row.encode())
        self.env: dict[str, str] = {}
        self.is_mended = False

    def change(self, piece: bytes) -> bytes:
        """Change a part of a reply."""
        if self.is_mended or b'"applications":' not in piece:
            return piece
        return self._rows.sub(rb"\1x", piece)


@contextmanager
def malformed_rows(service: IncomeService, *application_ids: str) -> Iterator[MalformedRows]:
    """Put this in front of a service."""
    rows = MalformedRows(application_ids)
    with beside(changing(service.url, replies=rows.change)) as port:
        rows.env["INCOME_BASE_URL"] = f"http://127.0.0.1:{port}"
        yield rows
