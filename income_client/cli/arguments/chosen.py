"""Which applications a command is about: named, on standard input, or changed in a span.

Knows how many it has come to; reads none of them.
"""

from collections.abc import AsyncIterator, Callable, Iterable

from attrs import frozen

from income_client import ApplicationPaginator, Window

from .id_lines import STANDARD_INPUT, read_ids


@frozen(kw_only=True)
class Known:
    """How many applications there are."""

    count: int
    """Those known so far."""
    is_all: bool
    """Whether no more will come."""


def overfull(second: Window) -> str:
    """Say that a second holds more changes than can be asked for."""
    return f"the second {second.starts_at.isoformat()} holds more than can be listed"


class Chosen:
    """Ids, each once, as they become known.

    Args:
        named: what stands on the command line, ``-`` for standard input.
        changed: a walk over those that changed in a span.
        on_known: told how many there are, each time that this changes.
    """

    def __init__(
        self,
        named: Iterable[str] = (),
        changed: ApplicationPaginator | None = None,
        *,
        on_known: Callable[[Known], None],
    ) -> None:
        named = tuple(named)
        self._named = tuple(dict.fromkeys(one for one in named if one != STANDARD_INPUT))
        self._has_input = STANDARD_INPUT in named
        self._changed = changed
        self._on_known = on_known
        self._seen = set(self._named)
        self._tell(is_all=changed is None and not self._has_input)

    @property
    def saturated(self) -> tuple[Window, ...]:
        """Seconds that hold more changes than can be asked for."""
        return () if self._changed is None else self._changed.saturated

    async def ids(self) -> AsyncIterator[str]:
        """Yield them.

        Raises:
            ConfigurationError: standard input is none of ids.
            IncomeClientError: the service does not tell them.
        """
        for one in self._named:
            yield one
        if self._has_input:
            async for one in read_ids():
                if self._is_new(one):
                    yield one
        if self._changed is not None:
            async for row in self._changed:
                if self._is_new(row.application_id):
                    yield row.application_id
        self._tell(is_all=True)

    def _is_new(self, one: str) -> bool:
        if one in self._seen:
            return False
        self._seen.add(one)
        self._tell(is_all=False)
        return True

    def _tell(self, *, is_all: bool) -> None:
        self._on_known(Known(count=len(self._seen), is_all=is_all))
