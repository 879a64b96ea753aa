"""Stores on engines that users already run, each an extra; imported name by name."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .postgres import PostgresCheckpointStore, PostgresTokenStore
else:
    from income_client._lazy import lazy_names

__all__ = ["PostgresCheckpointStore", "PostgresTokenStore"]

NAMES: Final = {"postgres": "PostgresCheckpointStore PostgresTokenStore"}
"""The modules, and what each gives."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, NAMES)
