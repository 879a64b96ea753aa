"""How many of something there are, in words; knows English plurals with s and no others."""


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 row`` or ``1,200 rows``."""
    return f"{count:,} {plural(noun, is_one=count == 1)}"


def plural(noun: str, *, is_one: bool = False) -> str:
    """Return a noun as it stands behind its number."""
    return noun if is_one else f"{noun}s"
