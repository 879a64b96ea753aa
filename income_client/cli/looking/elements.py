"""HTML that is escaped by construction: what is no element is text; knows no layout."""

from html import escape
from typing import Final

_VOID: Final = frozenset({"meta"})


class Markup(str):
    """Text that is HTML already, made by `element` only."""

    __slots__ = ()


def element(tag: str, *children: object, **attributes: str | None) -> Markup:
    """Return an element.

    Args:
        tag: its name.
        *children: elements as they are, anything else as text.
        **attributes: by name, with ``_`` for ``-`` and at the end of a keyword; None for none.
    """
    said = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    inner = joined(*children)
    return Markup(f"<{tag}{said}>" if tag in _VOID else f"<{tag}{said}>{inner}</{tag}>")


def joined(*children: object) -> Markup:
    """Return elements and texts, one after the other."""
    return Markup(
        "".join(each if isinstance(each, Markup) else escape(str(each)) for each in children)
    )


def style_sheet(text: str) -> Markup:
    """Return a style sheet of our own, which is not escaped: browsers would not read it back."""
    return Markup(f"<style>{text}</style>")
