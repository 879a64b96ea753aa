"""Weather that hangs on the file and on how often it was asked for, not on who comes first.

So a seed spoils the same requests at the same places on a slow machine and on a fast one.
"""

from collections import Counter
from random import Random
from typing import Final

from tests.support.cutting_proxy import NO_DAMAGE, CuttingProxy, Damage, Ending, RequestHead
from tests.support.object_storage import ObjectStorage

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
    """

    def __init__(self, storage: ObjectStorage, seed: int, share: float) -> None:
        self.replies = 0
        self.ended_early = 0
        self.refusals = 0
        self._seed = seed
        self._share = share
        self._sizes = {f"/{key}": len(content) for key, content in storage.files.items()}
        self._asked: Counter[str] = Counter()
        self._is_refused = False
        self._watch(storage.proxy)

    def _watch(self, proxy: CuttingProxy) -> None:
        gate = proxy.gate

        def watched(head: RequestHead) -> RequestHead | bytes:
            passed = gate(head)
            self._is_refused = isinstance(passed, bytes)
            return passed

        proxy.gate, proxy.weather = watched, self._choose

    def _choose(self, head: RequestHead) -> Damage:
        # The proxy asks for it right behind the gate.
        if self._is_refused:
            self.refusals += 1
            return NO_DAMAGE
        key = head.path[head.path.index("/", 1) :]
        self._asked[key] += 1
        turn = self._asked[key]
        self.replies += 1
        chance = Random(f"{self._seed} {key} {turn}")
        if chance.random() >= self._share:
            return NO_DAMAGE
        self.ended_early += 1
        first = int(head.headers.get("range", "bytes=0-")[len("bytes=") :].partition("-")[0])
        left = self._sizes[key] - first
        ending = chance.choice((Ending.CUT, Ending.RESET))
        most = left if ending is Ending.CUT else min(left, _MOST_BEFORE_RESET)
        least = 0 if turn % _CALM_EVERY == 0 else min(1, left)
        return Damage(ending=ending, after=chance.randint(least, most))
