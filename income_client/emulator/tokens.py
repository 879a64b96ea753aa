"""Access tokens as JWTs of the emulated service; time is an argument, and no key is real."""

import base64
import binascii
import hashlib
import hmac
import json
from typing import Any, Final

_HEADER: Final = b'{"alg":"HS256","typ":"JWT"}'


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class TokenMint:
    """Makes access tokens and recognises its own (contract section 5.1).

    Args:
        seed: what the signing key hangs on.

    Attributes:
        issued: tokens made so far.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._generation = 0
        self.issued: int = 0

    def issue(self, client_id: str, *, now: int, lifetime: int) -> str:
        """Make a token.

        Args:
            client_id: who bought it.
            now: the present service second.
            lifetime: seconds until it expires.
        """
        self.issued += 1
        claims = {
            "iss": "income-emulator",
            "sub": client_id,
            "iat": now,
            "exp": now + lifetime,
            "jti": f"{self._generation}-{self.issued}",
        }
        content = f"{_encode(_HEADER)}.{_encode(json.dumps(claims).encode())}"
        return f"{content}.{self._sign(content)}"

    def accepts(self, token: str, *, now: int) -> bool:
        """Say whether a token is one of ours, not revoked and not expired.

        Args:
            token: as it came.
            now: the present service second.
        """
        content, _, signature = token.rpartition(".")
        if not token.isascii() or not hmac.compare_digest(signature, self._sign(content)):
            return False
        claims = _claims(content)
        return claims is not None and now < claims["exp"]

    def revoke_all(self) -> None:
        """Refuse every token made so far."""
        self._generation += 1

    def _sign(self, content: str) -> str:
        key = f"invented key {self._seed} {self._generation}".encode()
        return _encode(hmac.digest(key, content.encode(), hashlib.sha256))


def _claims(content: str) -> dict[str, Any] | None:
    header, _, claims = content.partition(".")
    try:
        if _decode(header) != _HEADER:
            return None
        found = json.loads(_decode(claims))
    except (ValueError, binascii.Error):
        return None
    return found if isinstance(found, dict) else None
