"""Listing every application: the planner of windows, and the iterator that drives it."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .fetching import Fetcher, FetchFailure, OnError
    from .paginator import ApplicationPaginator, OnSaturated, WalkProgress
else:
    from income_client._lazy import lazy_names

__all__ = [
    "ApplicationPaginator",
    "FetchFailure",
    "Fetcher",
    "OnError",
    "OnSaturated",
    "WalkProgress",
]

NAMES: Final = {
    "fetching": "FetchFailure Fetcher OnError",
    "paginator": "ApplicationPaginator OnSaturated WalkProgress",
}
"""Public names by the module that defines them."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, NAMES)
