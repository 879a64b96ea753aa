"""Applications, their versions, and what the service replies about them."""

from datetime import timedelta
from typing import Any, Final

from attrs import define, field

from income_client.records.window import EPOCH
from tests.support.payloads import APPLICATION, DOCUMENTS, row_of_list

from .loops import EPOCH_OF_RUNS

DEFECTS: Final = ("missing", "invalid", "failing", "silent", "invalid row", "row without an id")
"""Faults of a listed application: its record is missing or breaks the contract; reading it fails or
never ends; its row is unreadable, with or without an id."""


@define(eq=False)
class Version:
    """One update of an application."""

    application_id: str
    number: int
    made_at: float
    """In the world's time."""
    second: int
    """The second of the service's zone in which the list shows it."""
    utc_second: int
    """The same second in UTC, as its record reports it."""
    listed_at: float
    """Latest second at which the list shows the version, in the world's time."""
    parts: tuple[int, int] = (0, 0)
    """Numbers of the last updates of the application itself and of its documents."""

    def __str__(self) -> str:
        return f"{self.application_id} v{self.number} of second {self.second - EPOCH_OF_RUNS}"


@define(eq=False)
class Application:
    """An application and its versions."""

    id: str
    versions: list[Version] = field(factory=list)
    is_deleted: bool = False
    restored_at: float = float("-inf")
    """Time at which it was there again after a deletion, in the world's time."""
    defect: str | None = None
    """Present fault of the application; None without one."""
    listed_at: float = float("-inf")
    """Time of the last page with its row, in the world's time."""
    nameless_at: float = float("-inf")
    """Time of the last page with its row without an id."""
    failed_at: float = float("-inf")
    """Time of the end of its last reading that may have failed."""

    @property
    def latest(self) -> Version:
        """Latest version of the application."""
        return self.versions[-1]

    def read_at(self, moment: float) -> Version | None:
        """Return the version that was made by a moment."""
        return next((one for one in reversed(self.versions) if one.made_at <= moment), None)

    def made_of(self, parts: tuple[int, int]) -> Version | None:
        """Return the version that has these parts; None if they were never there together."""
        return next((one for one in reversed(self.versions) if one.parts == parts), None)

    def containing(self, parts: tuple[int, int]) -> Version:
        """Return the latest version that is contained in parts read at two moments."""
        return next(
            one
            for one in reversed(self.versions)
            if one.parts[0] <= parts[0] and one.parts[1] <= parts[1]
        )

    def shown_at(self, moment: float) -> Version | None:
        """Return the version that the list shows; one that is late leaves the one before."""
        return next((one for one in reversed(self.versions) if one.listed_at <= moment), None)


def row_of(application_id: str, defect: str | None = None) -> dict[str, Any]:
    """Return the row of an application in the list."""
    return row_of_list(
        None if defect == "row without an id" else application_id,
        application_reference_id=application_id,
        application_date="today" if defect == "invalid row" else "2026-06-30T11:46:33",
    )


def body_of(version: Version, defect: str | None = None) -> dict[str, Any]:
    """Return the application as a version of it is read."""
    return APPLICATION | {
        "application_id": version.application_id,
        "last_updated_at": stamp_of(version.utc_second) + "Z",
        "applicants": [] if defect == "invalid" else {},
        "income_calculations": {},
        "data_sources": {"image_files": [], "structured_data": []},
        "version": version.number,
    }


def documents_of(version: Version, defect: str | None = None) -> dict[str, Any]:
    """Return the documents of an application as a version of it is read."""
    return DOCUMENTS | {
        "application_id": version.application_id,
        "documents": [] if defect == "invalid" else {},
        "version": version.number,
    }


def stamp_of(second: int) -> str:
    """Return a second as the service writes it."""
    return (EPOCH + timedelta(seconds=second)).isoformat()
