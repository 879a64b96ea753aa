"""An audit: what the service lists, compared with what a program holds."""

from .auditor import Audit, StaleApplication

__all__ = [
    "Audit",
    "StaleApplication",
]
