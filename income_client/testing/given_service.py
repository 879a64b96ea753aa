"""The emulator with a world to which a test adds; knows which body is served, and no socket."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import msgspec
from attrs import evolve

from income_client.emulator import Emulator, Service, ServiceRules
from income_client.emulator.cases import Paper, Seed, compose_case
from income_client.emulator.content import DocumentsTemplate
from income_client.emulator.storage import FileStorage
from income_client.emulator.times import stamp

from .given import GivenFile, documents_json
from .given_world import GivenWorld

_ADDRESS: Final = "@address-of-a-given-document@"


@cache
def _any_paper() -> Paper:
    seed = Seed(
        seed=0, number=0, version=0, application_id="", reference="", applied=0, first=0, updated=0
    )
    return compose_case(seed).papers[0]


def _paper(file: GivenFile) -> Paper:
    # Of a paper the host of files sees no more than these.
    return evolve(_any_paper(), document_id=file.document_id, file_names=file.file_names)


class GivenStorage(FileStorage):
    """Files of invented documents, and of those that were given."""

    def __init__(self, world: GivenWorld, papers_of: Callable[[int], Sequence[Paper]]) -> None:
        super().__init__(world, papers_of)
        self._given_world = world

    def _paper(self, document_id: str) -> Paper | None:
        for given in self._given_world.all_given():
            if (file := given.files.get(document_id)) is not None:
                return _paper(file)
        return super()._paper(document_id)


class GivenService(Service):
    """A service that serves invented applications, and given ones as they were given.

    Args:
        world: its applications.
    """

    def __init__(self, world: GivenWorld) -> None:
        super().__init__(world)
        self._given_world = world
        self.storage: FileStorage = GivenStorage(world, self._papers)

    def _row(self, number: int) -> str:
        given = self._given_world.given(number)
        if given is None:
            return super()._row(number)
        application = msgspec.json.decode(given.application)
        names = ("application_id", "application_reference_id", "application_date")
        return msgspec.json.encode({name: application[name] for name in names}).decode()

    def _write_application(self, number: int, version: int) -> bytes:
        given = self._given_world.given(number)
        if given is None:
            return super()._write_application(number, version)
        updated = stamp(self._given_world.updated_second(number)) + "Z" if version else None
        return given.application_body(updated)

    def _write_documents(self, number: int, version: int, pages: bool) -> DocumentsTemplate:
        given = self._given_world.given(number)
        if given is None:
            return super()._write_documents(number, version, pages)
        body = documents_json(given, _ADDRESS, pages=pages)
        shown = (
            document["document_id"]
            for documents in given.documents["documents"].values()
            for document in documents
        )
        return DocumentsTemplate(
            pieces=tuple(body.split(_ADDRESS.encode())),
            papers=tuple(_paper(given.files[name]) for name in shown if name in given.files),
        )


class GivenEmulator(Emulator):
    """An emulator to whose applications others can be added; made as `Emulator` is.

    Attributes:
        advanced: seconds that its time was moved by hand, fractions included.
    """

    world: GivenWorld
    advanced: float = 0.0

    def advance(self, seconds: float) -> None:
        """Move service time forward, as by `Emulator.advance`."""
        super().advance(seconds)
        self.advanced += seconds

    def _make_service(
        self, updates: Sequence[int], *, seed: int, now: int, rules: ServiceRules
    ) -> GivenService:
        return GivenService(GivenWorld(updates, seed=seed, now=now, rules=rules))
