"""A client certificate in a header, as proxies that end TLS forward it; believes none of them."""

import base64
import binascii
import re
from typing import Final
from urllib.parse import unquote_to_bytes

LARGEST: Final = 16_384
"""Bytes of the longest certificate that is read, in any form."""

_RFC_9440: Final = re.compile(rb":([A-Za-z0-9+/]+={0,2}):")
_PEM: Final = re.compile(
    rb"\s*-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----\s*"
)


def certificate_in(value: bytes) -> bytes | None:
    """Return the certificate of a header field in DER; None where it cannot be read.

    Two forms are in use, and told apart by their beginning: ``:base64 of DER:`` (RFC 9440)
    and PEM, percent-encoded, as nginx and load balancers have it. A plus sign stands for
    itself in both.

    Args:
        value: of the field.
    """
    if len(value) > LARGEST:
        return None
    if value.startswith(b":"):
        found = _RFC_9440.fullmatch(value)
        text = found[1] if found else b""
    else:
        found = _PEM.fullmatch(unquote_to_bytes(value))
        text = b"".join(found[1].split()) if found else b""
    try:
        return base64.b64decode(text, validate=True) or None
    except binascii.Error:
        return None
