"""Every reason for which a callback is not taken, with the status of the answer.

The reason is for the operator; the sender is told the status only, and of all
that is wrong with credentials the same.
"""

import enum

from income_client.errors import CallbackRejectedError


class Refusal(enum.Enum):
    """Why a request is answered with another status than 200."""

    METHOD = (405, "the method is not POST")
    SOURCE_UNKNOWN = (403, "the server does not tell the address of its peer")
    SOURCE_REWRITTEN = (403, "the server may have put a forwarded address in place of its peer's")
    SOURCE_UNREADABLE = (403, "a proxy has forwarded an address that is none")
    SOURCE_NOT_ALLOWED = (403, "the address is in none of the networks")
    CERTIFICATE_MISSING = (403, "no client certificate, or the server does not tell of it")
    CERTIFICATE_NOT_VERIFIED = (403, "a client certificate that the proxy has not verified")
    CERTIFICATE_UNREADABLE = (403, "a client certificate that cannot be read")
    CERTIFICATE_OUT_OF_TIME = (403, "a client certificate that is not valid at this time")
    CERTIFICATE_NOT_PINNED = (403, "the client certificate of somebody else")
    AUTHORIZATION_MISSING = (401, "no Authorization header")
    AUTHORIZATION_DOUBLED = (401, "more than one Authorization header")
    AUTHORIZATION_UNREADABLE = (401, "an Authorization header that cannot be read")
    SCHEME_NOT_ACCEPTED = (401, "an Authorization header of another scheme")
    PASSWORD_WRONG = (401, "a wrong user name or password")
    TOKEN_UNREADABLE = (401, "no signed token")
    TOKEN_ALGORITHM = (401, "a token of an algorithm, or a type, that is not allowed")
    TOKEN_KEY_UNKNOWN = (401, "a token signed with an unknown key")
    TOKEN_SIGNATURE = (401, "a token whose signature is wrong")
    TOKEN_OUT_OF_TIME = (401, "a token that has expired or is not valid yet")
    TOKEN_ISSUER = (401, "a token of another issuer")
    TOKEN_AUDIENCE = (401, "a token for another audience")
    TOKEN_CLAIMS = (401, "a token without a claim that is required")
    TOKEN_REFUSED = (401, "a token that the verify callable refuses")
    KEYS_UNAVAILABLE = (503, "the keys of tokens cannot be had now")
    VERIFIER_FAILED = (503, "the verify callable failed, or did not return a bool")
    CONTENT_TYPE = (415, "a content type that is not JSON")
    CONTENT_ENCODING = (415, "a body that is compressed")
    TOO_LARGE = (413, "the body is too large")
    TOO_SLOW = (408, "the body took too long")
    CUT_SHORT = (400, "the body ended early")
    NOT_JSON = (400, "the body is no whole JSON in UTF-8, too deep, or has a key twice")
    QUEUE_FULL = (503, "too many callbacks are waiting")
    HANDLER_FAILED = (503, "on_callback failed")
    HANDLER_SLOW = (503, "on_callback took too long")

    @property
    def status(self) -> int:
        """HTTP status of the answer."""
        return self.value[0]

    @property
    def reason(self) -> str:
        """Why, in words."""
        return self.value[1]

    @property
    def slug(self) -> str:
        """Why, as a name for logs and counters."""
        return self.name.lower()

    def error(self, *, retry_after: float | None = None) -> CallbackRejectedError:
        """Return the error that stands for it."""
        return CallbackRejectedError(self.status, self.reason, retry_after=retry_after)
