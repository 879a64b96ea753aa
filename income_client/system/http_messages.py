"""HTTP messages: the limits of a head, and the content codings that change a body."""

from typing import Final, TypedDict


class HeadLimits(TypedDict):
    """Limits of the head of a message, as aiohttp names them."""

    max_line_size: int
    max_field_size: int
    max_headers: int


HEAD_LIMITS: Final = HeadLimits(max_line_size=65_536, max_field_size=65_536, max_headers=1_000)
"""Limits of the head of a reply.

Gateways send policies and cookies that are longer than the 8,190 bytes of aiohttp, and more than
its 128 fields.
"""

_CODINGS: Final = frozenset(
    {
        "aes128gcm", "br", "bzip2", "compress", "dcb", "dcz", "deflate", "exi", "gzip", "lz4",
        "lzma", "pack200-gzip", "snappy", "x-bzip2", "x-compress", "x-gzip", "xz", "zstd",
    }
)  # fmt: skip
"""Names of content codings, the registered ones and those that programs use besides."""


def is_encoded(content_encoding: str) -> bool:
    """Return whether a header field Content-Encoding names a coding.

    Objects are stored with ``UTF-8``, ``base64``, ``none`` and ``aws-chunked`` there, none of which
    says that their bytes were changed.
    """
    names = content_encoding.lower().split(",")
    return any(name.strip() in _CODINGS for name in names)
