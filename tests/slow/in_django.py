"""Checks of the example in Django; each runs in a process of the project that the test makes."""

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import django
import pytest

django.setup()

from asgiref.sync import sync_to_async
from django.core.management.base import CommandError
from django.db import transaction
from django.test import AsyncClient, Client
from lending.checkpoints import DjangoCheckpointStore
from lending.client import income
from lending.management.commands.follow_incomes import write
from lending.models import Application, Place, Poll

from income_client.testing import check_checkpoint_store

FOLLOW: Final = (sys.executable, "manage.py", "follow_incomes", "--once")
THREADS: Final = 8


def store_keeps_the_contract() -> None:
    """The package's own test of stores passes, on a table that each rule finds empty."""

    async def make_store() -> DjangoCheckpointStore:
        await sync_to_async(Poll.objects.all().delete, thread_sensitive=False)()
        return DjangoCheckpointStore()

    asyncio.run(check_checkpoint_store(make_store))


def rows_are_printed() -> None:
    """Print each row's id, time and content, for the test to compare."""
    for row in Application.objects.all():
        print(json.dumps([row.application_id, row.updated_at.isoformat(), row.content]))


def late_process_is_refused() -> None:
    """A process that commits after a newer one writes neither rows nor a place."""
    place = Place.objects.get()
    poller = income.poll(DjangoCheckpointStore(), start=place.checkpoint, once=True)
    batch = next(poller.batches())
    subprocess.run(FOLLOW, check=True, stdout=subprocess.DEVNULL)
    newer = rows()
    with pytest.raises(CommandError, match="later batch"), batch, transaction.atomic():
        write(batch)
    assert rows() == newer


def overtaken_task_writes_nothing(application_id: str) -> None:
    """A row that the command has written since a task noted its sequence stays as it is."""
    noted = Application.objects.get(pk=application_id).sequence
    subprocess.run(FOLLOW, check=True, stdout=subprocess.DEVNULL)
    assert not Application.objects.filter(pk=application_id, sequence=noted).update(content={})


def rows() -> list[tuple[Any, ...]]:
    """Return what the rows and the place hold."""
    written = Application.objects.order_by("pk").values_list("pk", "sequence", "updated_at")
    return [*written, *Place.objects.values_list()]


def query_sets_are_read_in_their_transaction() -> None:
    """A client reads a query where the caller's transaction is: other rows are not committed."""
    ids = Application.objects.values_list("pk", flat=True)
    committed = set(ids.all())
    with transaction.atomic():
        kept = ids.order_by("pk").first()
        Application.objects.exclude(pk=kept).delete()
        assert [record.application_id for record in income.fetch_records(ids)] == [kept]
        held = Application.objects.values_list("application_id", "updated_at")
        report = income.audit(held.iterator(), updated_after="2000-01-01")
        assert report.held == 1
        assert len(report.missing) >= report.listed - 1 > 0
        transaction.set_rollback(True)
    assert {record.application_id for record in income.fetch_records(ids.all())} == committed


def views_answer(*ids: str) -> None:
    """Many threads at a cold start, then known and unknown ids, under WSGI and ASGI."""
    with ThreadPoolExecutor(THREADS) as threads:
        replies = threads.map(lambda _: Client().get(f"/applications/{ids[0]}"), range(THREADS))
        assert {reply.status_code for reply in replies} == {200}
    expected = [200, *[404] * (len(ids) - 1)]
    assert [Client().get(f"/applications/{one}").status_code for one in ids] == expected

    async def read() -> list[int]:
        replies = [await AsyncClient().get(f"/applications/{one}") for one in ids]
        return [reply.status_code for reply in replies]

    assert asyncio.run(read()) == expected


def status_is_printed() -> None:
    """Print the status of a view whose call fails as the test has the service fail."""
    print(Client().get("/applications/app-1").status_code)


def callbacks_ring() -> None:
    """A callback rings the store under WSGI and ASGI; one without credentials gets 401."""
    before = rings()
    for password, status in (("guess", 401), ("invented", 200)):
        reply = Client().post("/callbacks", **callback(password))
        assert (reply.status_code, reply.headers["Content-Type"]) == (status, "application/json")
        reply = asyncio.run(AsyncClient().post("/callbacks", **callback(password)))
        assert reply.status_code == status
    assert Client().get("/callbacks").status_code == 405
    assert rings() == before + 2


def callback(password: str) -> dict[str, Any]:
    """Return the arguments of a request."""
    credentials = base64.b64encode(f"service:{password}".encode()).decode()
    return {
        "data": {"event_type": "income_calculation", "application_id": "app-1"},
        "content_type": "application/json",
        "headers": {"Authorization": f"Basic {credentials}"},
    }


def rings() -> int:
    """Return how often the poller was asked to wake."""
    return int(Poll.objects.get().rings)


CHECKS: Final = (
    callbacks_ring,
    late_process_is_refused,
    overtaken_task_writes_nothing,
    query_sets_are_read_in_their_transaction,
    rows_are_printed,
    status_is_printed,
    store_keeps_the_contract,
    views_answer,
)

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    check: dict[str, Callable[..., None]] = {one.__name__: one for one in CHECKS}
    check[name](*arguments)
