"""Tokens that claim anything, signed by nobody."""

import json
from base64 import urlsafe_b64encode
from typing import Any


def part(value: Any) -> str:
    """Return a value as a part of a token."""
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def jwt(claims: Any, **header: Any) -> str:
    """Return a token with these claims, signed by nobody."""
    return f"{part({'alg': 'RS256', **header})}.{part(claims)}.c2lnbmF0dXJl"
