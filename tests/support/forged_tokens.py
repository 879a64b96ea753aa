"""Tokens for callbacks that somebody has forged."""

import hmac
from collections.abc import Mapping
from typing import Any

from tests.support.signed_tokens import CLAIMS, public_pem, segment


def unsigned(algorithm: str = "none") -> str:
    """Return a token without a signature."""
    return f"{segment({'alg': algorithm, 'typ': 'JWT'})}.{segment(dict(CLAIMS))}."


def confused() -> str:
    """Return a token whose secret is the public key that everybody has."""
    message = f"{segment({'alg': 'HS256', 'typ': 'JWT'})}.{segment(dict(CLAIMS))}"
    return f"{message}.{segment(hmac.digest(public_pem('RSA'), message.encode(), 'sha256'))}"


def altered(token: str, claims: Mapping[str, Any]) -> str:
    """Return a token with other claims and the old signature."""
    header, _, signature = token.split(".")
    return f"{header}.{segment({**CLAIMS, **claims})}.{signature}"
