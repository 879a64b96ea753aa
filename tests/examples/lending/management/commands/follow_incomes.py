# lending/management/commands/follow_incomes.py
# pip install django
import json
import signal
from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError
from django.db import close_old_connections, transaction
from lending.checkpoints import DjangoCheckpointStore
from lending.models import Application, Place

from income_client import SyncIncomeClient, to_json
from income_client.sync import SyncBatch

NAME = "default"


class Command(BaseCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true")

    def handle(self, *, once: bool, **_: object) -> None:
        place, _ = Place.objects.get_or_create(name=NAME)
        start, store = place.checkpoint or "2000-01-01", DjangoCheckpointStore()
        with SyncIncomeClient.from_env() as client:
            poller = client.poll(store, name=NAME, start=start, once=once, standby=not once)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: poller.stop())
            for batch in poller.batches():
                close_old_connections()  # those that a restart of PostgreSQL has ended
                with batch, transaction.atomic():
                    write(batch)
                self.stdout.write(f"{len(batch)} applications")


def write(batch: SyncBatch) -> None:
    place = Place.objects.filter(name=NAME, sequence__lt=batch.sequence)
    if not place.update(checkpoint=batch.checkpoint, sequence=batch.sequence):
        raise CommandError("another process has written a later batch")
    for record in batch:
        Application(
            application_id=record.application_id,
            sequence=batch.sequence,
            updated_at=record.last_updated_at,
            content=json.loads(to_json(record.application), parse_float=str),
        ).save()
