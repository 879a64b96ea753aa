"""A store as version 0.2.0 has left it: its checkpoint is written here by hand.

Nothing of the package writes it, so that a change of what the package reads or digests shows.
"""

import json
import random
import zlib
from base64 import b64encode
from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from income_client.checkpoints import StoredCheckpoint

from .applications import Version, body_of
from .deliveries import Beginning, OwnDatabase
from .loops import EPOCH_OF_RUNS
from .stores import Row

if TYPE_CHECKING:
    from .cluster import Cluster

_BEGAN: Final = EPOCH_OF_RUNS - 40_000
"""The second that the name began with."""


@frozen(kw_only=True)
class Release:
    """The state of a store after the last poller of 0.2.0."""

    ago: float
    """Seconds between its last poll and the run."""
    lease: float | None
    """Of the checkpoint: None where it ran without standbys, 0 where it has given it up."""
    batches: int
    takeovers: int
    ends_unknown: bool
    """Whether the checkpoint does not say how long the list can show what it remembers."""

    @classmethod
    def drawn(cls, chance: random.Random, lease: float) -> "Release | None":
        """Draw what was left, for one run in six."""
        if chance.random() > 1 / 6:
            return None
        return cls(
            ago=10 * chance.random(),
            lease=chance.choice((None, 0, lease)),
            batches=chance.randrange(1, 5_000),
            takeovers=chance.randrange(1, 9),
            ends_unknown=chance.random() < 0.3,
        )


def leave_behind(run: "Cluster", release: Release) -> None:
    """Begin a run with the store of a poller of 0.2.0, which has delivered what it could list."""
    settings, rules, books = run.plan.settings, run.plan.rules, run.books
    polled_at = run.world.now - release.ago
    present = run.service.second_at(polled_at)
    reached = present - int(settings.settle) - 1
    shown = [
        version
        for version in books.pending.values()
        if version.listed_at + rules.oldest_read <= polled_at
    ]
    remembered = [one for one in shown if one.second >= reached - settings.lookback - 1]
    end = None if release.ends_unknown else present + 1 - reached
    packed = b"".join(map(_entry_of, remembered))
    state: dict[str, Any] = {
        "poll": 2,
        "since": _BEGAN,
        "reached": reached,
        "low": None,
        "batches": release.batches,
        "claims": release.takeovers,
        "seen": [[end, b64encode(packed).decode()]] if packed else [],
    }
    if release.lease is not None:
        state["lease"] = release.lease
    text = _checked(state)
    run.store.state.stored = StoredCheckpoint(checkpoint=text, version=release.batches)
    run.store.state.committed = _numbers_of(remembered)
    run.store.state.rows = [Row(one.application_id, one.number, sequence=0) for one in shown]
    run.world.count("store: left by 0.2.0")
    if run.plan.consumer == "own checkpoint":
        books.own = OwnDatabase(text, _numbers_of(remembered))
    books.beginning = Beginning(polled_at, _BEGAN)
    books.furthest = reached
    for version in shown:
        del books.pending[version.application_id]


def _numbers_of(versions: Iterable[Version]) -> dict[str, int]:
    return {version.application_id: version.number for version in versions}


def _entry_of(version: Version) -> bytes:
    """Return the key of an application and the digest of its record."""
    name = version.application_id.encode()
    content = json.dumps(body_of(version), sort_keys=True, separators=(",", ":")).encode()
    application = blake2b(name + content, digest_size=16).digest()
    record = blake2b(application, digest_size=16).digest()
    return blake2b(name, digest_size=8).digest()[:6] + record[:8]


def _checked(state: dict[str, Any]) -> str:
    whole = json.dumps(state, sort_keys=True, separators=(",", ":")).encode()
    return json.dumps({**state, "check": zlib.crc32(whole)}, separators=(",", ":"))
