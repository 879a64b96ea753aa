"""What a connection tells of its other end: address, verified certificate; believes no header."""

import asyncio
import ssl
from typing import Final

from income_client.protocol.callbacks.exchange import UNIX_PEER

PEER_EXTENSION: Final = "income_client.connection"
"""Where an ASGI scope's extensions say what `peer_of` found, whatever a middleware did since."""


def peer_of(transport: asyncio.BaseTransport | None) -> str | None:
    """Return the address of the other end, as `RequestHead.peer` has it.

    Args:
        transport: of the connection; None once it has ended.
    """
    name = None if transport is None else transport.get_extra_info("peername")
    match name:
        case (str() as address, *_):
            return address
        case str() | bytes():
            # A client's socket of the file system has a name seldom, its family always.
            return UNIX_PEER
        case _:
            return None


def certificate_of(transport: asyncio.BaseTransport | None) -> bytes | None:
    """Return the other end's certificate in DER; None if there is none, or nobody verified it.

    Args:
        transport: of the connection; None once it has ended.
    """
    layer = None if transport is None else transport.get_extra_info("ssl_object")
    if not isinstance(layer, ssl.SSLObject) or layer.context.verify_mode == ssl.CERT_NONE:
        return None
    return layer.getpeercert(binary_form=True)
