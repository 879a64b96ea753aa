"""Keeps the token that a client buys, for this process only; writes it nowhere."""

from income_client import StoredToken


class TokenKeeper:
    """A token store that begins empty, so that a token is bought.

    Attributes:
        token: the one that was bought last, None before.
    """

    def __init__(self) -> None:
        self.token: StoredToken | None = None

    async def load(self) -> StoredToken | None:
        """Return nothing, so that no token is taken for a new one."""
        return None

    async def save(self, token: StoredToken) -> None:
        """Keep this token in place of any other."""
        self.token = token
