"""Basic credentials of callbacks (contract section 5.2); compares digests, keeps no password."""

import base64
import binascii
import hmac
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from attrs import field, frozen

from income_client.errors import ConfigurationError
from income_client.settings import BasicAuth, Secret

from .refusals import Refusal

_ENCODINGS: Final = ("utf-8", "latin-1")


@frozen(init=False)
class CallbackBasicAuth:
    """User name and password that callbacks carry (contract section 5.2).

    Args:
        username: as given to the service at account configuration; holds no colon.
        password: as given to the service, a str or a `Secret`.
        also: further pairs that are accepted, for the time of a change of passwords.

    Raises:
        ConfigurationError: a part is empty or holds a control character.
    """

    _digests: tuple[bytes, ...] = field(repr=False)

    def __init__(
        self, username: str, password: str | Secret, *, also: Iterable[BasicAuth] = ()
    ) -> None:
        read = _read(username, password, also)
        if isinstance(read, str):
            # Crash reporters send the locals of the frame that raises.
            del self, username, password, also
            raise ConfigurationError(read)
        self.__attrs_init__(read)

    def refusal(self, credentials: bytes) -> Refusal | None:
        """Say why credentials are not accepted, None if they are.

        Takes as long for one wrong pair as for another.

        Args:
            credentials: what follows ``Basic`` in the header.
        """
        try:
            pair = base64.b64decode(credentials, validate=True)
        except binascii.Error:
            return Refusal.AUTHORIZATION_UNREADABLE
        digest = sha256(pair).digest()
        # Every pair is compared, whichever fits.
        fits = [hmac.compare_digest(digest, known) for known in self._digests]
        return None if any(fits) else Refusal.PASSWORD_WRONG


def _read(username: str, password: str | Secret, also: object) -> tuple[bytes, ...] | str:
    """Return the digests of all pairs, or what is wrong with one of them."""
    if not isinstance(also, Iterable):
        return "also is an iterable of BasicAuth"
    try:
        pairs = (BasicAuth(username, password), *also)
    except ConfigurationError as error:
        return error.message
    if not all(isinstance(pair, BasicAuth) for pair in pairs):
        return "also holds something that is no BasicAuth"
    return tuple(digest for pair in pairs for digest in _digests(pair))


def _digests(pair: BasicAuth) -> Iterable[bytes]:
    # The name holds no colon, so that a pair has one reading. Which characters the
    # service sends in which encoding is not shown (RFC 7617 leaves both).
    text = f"{pair.username}:{pair.password.reveal()}"
    for encoding in _ENCODINGS:
        try:
            yield sha256(text.encode(encoding)).digest()
        except UnicodeEncodeError:
            continue
