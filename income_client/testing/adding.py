"""How records of a test become applications of the service; runs where the service runs."""

from collections.abc import Iterable
from datetime import UTC
from typing import TypeAlias

from attrs import evolve

from income_client import (
    Application,
    ApplicationDocuments,
    ApplicationRecord,
    ConfigurationError,
    Document,
)
from income_client.emulator.times import moment_of, second_of

from .given import by_type, given
from .given_service import GivenEmulator

Documents: TypeAlias = ApplicationDocuments | Iterable[Document] | None


class Adding:
    """Adds to the applications of an emulator.

    Args:
        emulator: whose.
    """

    def __init__(self, emulator: GivenEmulator) -> None:
        self._emulator = emulator

    def add(
        self, record: ApplicationRecord | Application, documents: Documents, *, now: bool
    ) -> ApplicationRecord:
        """Add an application; see `IncomeService.add`."""
        whole = _with_documents(record, documents)
        if now:
            whole = _updated_at(whole, self._emulator.now)
        moment = whole.application.last_updated_at.astimezone(UTC).replace(tzinfo=None)
        self._emulator.world.add(given(whole), second_of(moment), now=self._emulator.now)
        return whole

    def update(
        self, record: ApplicationRecord | Application, documents: Documents
    ) -> ApplicationRecord:
        """Put another version in an application's place; see `IncomeService.update`."""
        whole = _with_documents(record, documents)
        if whole.documents is None:
            number = self._emulator.world.number_of(whole.application_id)
            before = None if number is None else self._emulator.world.given(number)
            whole = evolve(whole, documents=before.record.documents if before else None)
        self._emulator.world.check_given(whole)
        # Written down once for nothing: what is refused leaves service time as it was.
        given(_updated_at(whole, self._emulator.now))
        self._move_on(whole.application_id)
        whole = _updated_at(whole, self._emulator.now)
        self._emulator.world.replace(given(whole))
        return whole

    def touch(self, application_id: str) -> None:
        """Update an application now; see `IncomeService.touch`."""
        self._move_on(application_id)
        self._emulator.touch(application_id)

    def _move_on(self, application_id: str) -> None:
        if self._emulator.world.updated_at(application_id) >= self._emulator.now:
            self._emulator.advance(1)


def _updated_at(record: ApplicationRecord, second: int) -> ApplicationRecord:
    moment = moment_of(second).replace(tzinfo=UTC)
    return evolve(record, application=evolve(record.application, last_updated_at=moment))


def _with_documents(
    record: ApplicationRecord | Application, documents: Documents
) -> ApplicationRecord:
    if isinstance(record, Application):
        record = ApplicationRecord(application=record, documents=None)
    if not isinstance(record, ApplicationRecord):
        raise ConfigurationError("what is added is an Application or an ApplicationRecord")
    if documents is None:
        whole = record
    elif record.documents is not None:
        raise ConfigurationError("documents are given twice: in the record and beside it")
    elif isinstance(documents, ApplicationDocuments):
        whole = evolve(record, documents=documents)
    else:
        application = record.application
        whole = evolve(
            record,
            documents=ApplicationDocuments(
                application_id=application.application_id,
                application_reference_id=application.application_reference_id,
                documents=by_type(documents),
            ),
        )
    if whole.documents and whole.documents.application_id != whole.application_id:
        raise ConfigurationError("the documents are those of another application")
    return whole
