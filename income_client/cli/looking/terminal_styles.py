"""How an application looks on a terminal, wherever in it; knows no content."""

from typing import Final

from rich.style import Style

ALARM: Final = Style(color="red", bold=True)
"""What rests on a suspected document."""
STRONG: Final = Style(bold=True)
"""What is named, and what is summed up."""
QUIET: Final = Style(dim=True)
"""What explains the rest."""
GAP: Final = 2
"""Cells between two columns."""
