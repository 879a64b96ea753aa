"""Text that cannot act on a terminal; knows nothing of where it is shown."""


def printable(text: str) -> str:
    """Return a text with ``?`` for each character that would move a cursor or ring a bell."""
    return "".join(one if one.isprintable() else "?" for one in text)
