"""The bearer token of one callback, checked with whatever its rules name; knows no request."""

import asyncio
import inspect
import re
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from income_client.protocol.callbacks.bearer import CallbackBearerAuth, Verify
from income_client.protocol.callbacks.refusals import Refusal
from income_client.protocol.callbacks.token_rules import LONGEST_TOKEN, TokenRules

from .cancellation import is_cancelled
from .status import logger

if TYPE_CHECKING:
    from income_client.protocol.callbacks.token_keys import TokenKeys

    from .key_source import FetchKeySet, KeySource

_VERIFY_SECONDS: Final = 10.0
_BEARER: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class TokenCheck:
    """Checks bearer tokens (contract section 5.2).

    Args:
        auth: which of them are accepted.
        now: tells seconds since 1970.
        monotonic: a monotonic clock, in seconds.
        fetch: gets a key set from its address, in place of a request.
    """

    def __init__(
        self,
        auth: CallbackBearerAuth,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        fetch: "FetchKeySet | None" = None,
    ) -> None:
        self._verify = auth.verify
        self._rules = auth.rules
        self._keys = auth.keys
        self._now = now
        self._monotonic = monotonic
        self._source: KeySource | None = None
        if auth.jwks_url is not None:
            self._source = _key_source(auth, auth.jwks_url, monotonic, fetch)

    async def refusal(self, token: str) -> Refusal | None:
        """Say why a token is refused, None if it is believed; raises nothing but cancellation.

        Args:
            token: as it stands in the header.
        """
        if len(token) > LONGEST_TOKEN or _BEARER.fullmatch(token) is None:
            return Refusal.TOKEN_UNREADABLE
        if self._verify is not None:
            return await _asked(self._verify, token)
        if self._rules is None:
            return Refusal.TOKEN_REFUSED
        if self._keys is not None:
            return self._check(token, self._keys, self._rules)
        if self._source is not None:
            return await self._checked_with(self._source, token, self._rules)
        return Refusal.KEYS_UNAVAILABLE

    async def _checked_with(
        self, source: "KeySource", token: str, rules: TokenRules
    ) -> Refusal | None:
        came_at = self._monotonic()
        if not source.has_keys:
            # What is no token at all is no reason to ask for keys.
            refusal = self._check(token, None, rules)
            if refusal is not Refusal.TOKEN_KEY_UNKNOWN:
                return refusal
        keys = await source.keys()
        if isinstance(keys, Refusal):
            return keys
        refusal = self._check(token, keys, rules)
        if refusal is not Refusal.TOKEN_KEY_UNKNOWN:
            return refusal
        newer = await source.newer_than(keys, since=came_at)
        return newer if isinstance(newer, Refusal) else self._check(token, newer, rules)

    def _check(self, token: str, keys: "TokenKeys | None", rules: TokenRules) -> Refusal | None:
        # Imported with the keys, and only then.
        from income_client.protocol.callbacks.access_tokens import check_token  # noqa: PLC0415
        from income_client.protocol.callbacks.token_keys import NO_KEYS  # noqa: PLC0415

        return check_token(token, keys or NO_KEYS, rules, now=self._now())


def _key_source(
    auth: CallbackBearerAuth, url: str, monotonic: Callable[[], float], fetch: "FetchKeySet | None"
) -> "KeySource":
    from .key_fetch import fetch_key_set  # noqa: PLC0415 - only an address needs its library
    from .key_source import KeySource  # noqa: PLC0415 - as above

    by_default = partial(fetch_key_set, tls=auth.ssl)
    return KeySource(url, monotonic=monotonic, fetch=fetch or by_default)


async def _asked(verify: Verify, token: str) -> Refusal | None:
    try:
        async with asyncio.timeout(_VERIFY_SECONDS):
            said = verify(token)
            if inspect.isawaitable(said):
                said = await said
    except (Exception, asyncio.CancelledError) as error:  # its text may show the token
        if is_cancelled():
            raise
        logger.warning("verify failed with %s", type(error).__name__)
        return Refusal.VERIFIER_FAILED
    return _verdict(said)


def _verdict(said: object) -> Refusal | None:
    """Return what follows from an answer; whatever is merely true in an `if` is not believed."""
    if said is True:
        return None
    if said is False or said is None:
        return Refusal.TOKEN_REFUSED
    logger.warning("verify returned %s, which is no bool", type(said).__name__)
    return Refusal.VERIFIER_FAILED
