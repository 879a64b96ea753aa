"""Weather that hangs on the file and on how often it was asked for, not on who comes first.

So a seed spoils the same requests at the same places on a slow machine and on a fast one.
"""

from collections import Counter
from random import Random
from typing import Final

from attrs import evolve

from tests.support.object_storage import ObjectStorage
from tests.support.server import Reply, Request

_MOST_BEFORE_RESET: Final = 32 * 1024
_CALM_EVERY: Final = 3


class CuttingWeather:
    """Ends a share of the replies early, by a FIN or an RST; refusals come whole.

    A reset takes along what is in its sender's buffers, which on a slow machine is
    much: it falls on the first bytes, which fit into the receiver's. After a reply
    that brought nothing, the next one brings something.

    Args:
        storage: whose replies it spoils, from now on.
        seed: what the choice hangs on.
        share: part of the replies that are ended early, from 0 to 1.

    Attributes:
        replies: how many were no refusals.
        ended_early: how many of those were spoilt.
        refusals: how many were.
        body_bytes: of bodies that were handed to clients.
    """

    def __init__(self, storage: ObjectStorage, seed: int, share: float) -> None:
        self.replies = 0
        self.ended_early = 0
        self.refusals = 0
        self.body_bytes = 0
        self._seed = seed
        self._share = share
        self._asked: Counter[str] = Counter()
        storage.weather = self._spoil

    def _spoil(self, request: Request, reply: Reply) -> Reply:
        if reply.status in (400, 403):
            self.refusals += 1
            return reply
        key = request.path[request.path.index("/", 1) :]
        self._asked[key] += 1
        turn = self._asked[key]
        self.replies += 1
        chance = Random(f"{self._seed} {key} {turn}")
        if chance.random() >= self._share:
            self.body_bytes += len(reply.body)
            return reply
        self.ended_early += 1
        left, is_reset = len(reply.body), chance.choice((False, True))
        most = min(left, _MOST_BEFORE_RESET) if is_reset else left
        least = 0 if turn % _CALM_EVERY == 0 else min(1, left)
        after = chance.randint(least, most)
        self.body_bytes += after
        return evolve(reply, cut=reply.body_at + after, reset=is_reset)
