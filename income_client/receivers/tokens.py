"""The bearer token of one callback, checked with keys, a key set's address or a callable."""

import asyncio
import inspect
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .auth import CallbackBearerAuth, Verify
from .endpoint import TimeSource, is_cancelled, logger
from .exchange import LONGEST_TOKEN, Refusal, RefusedError

if TYPE_CHECKING:
    from .jwks import FetchKeySet, KeySetCache
    from .jwt import TokenKeys, TokenRules

_VERIFY_SECONDS: Final = 10.0
_BEARER: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class TokenCheck:
    """Checks bearer tokens (contract section 5.2)."""

    def __init__(
        self, auth: CallbackBearerAuth, clock: TimeSource, *, fetch: "FetchKeySet | None" = None
    ) -> None:
        self._auth = auth
        self._clock = clock
        self._cache: KeySetCache | None = None
        if auth.jwks_url is not None:
            from . import jwks  # noqa: PLC0415 - only an address needs its library

            self._cache = jwks.KeySetCache(
                auth.jwks_url,
                monotonic=clock.monotonic,
                fetch=fetch or partial(jwks.fetch_key_set, tls=auth.ssl),
            )

    async def check(self, token: str) -> None:
        """Refuse a token that is not to be believed."""
        if len(token) > LONGEST_TOKEN or _BEARER.fullmatch(token) is None:
            raise RefusedError(Refusal.TOKEN_UNREADABLE)
        auth = self._auth
        if auth.verify is not None:
            await _ask(auth.verify, token)
        elif auth.rules is None:
            raise RefusedError(Refusal.TOKEN_REFUSED)
        elif self._cache is not None:
            await self._check_fetched(self._cache, token, auth.rules)
        elif auth.keys is None or self._has_unknown_key(token, auth.keys, auth.rules):
            raise RefusedError(Refusal.TOKEN_KEY_UNKNOWN)

    async def _check_fetched(self, cache: "KeySetCache", token: str, rules: "TokenRules") -> None:
        from .jwt import NO_KEYS  # noqa: PLC0415 - an extra

        came_at = self._clock.monotonic()
        if cache.current is None:
            # What cannot be a good token is no reason to ask for keys.
            self._has_unknown_key(token, NO_KEYS, rules)
        keys = await cache.keys()
        if self._has_unknown_key(token, keys, rules):
            newer = await cache.newer_than(keys, since=came_at)
            if self._has_unknown_key(token, newer, rules):
                raise RefusedError(Refusal.TOKEN_KEY_UNKNOWN)

    def _has_unknown_key(self, token: str, keys: "TokenKeys", rules: "TokenRules") -> bool:
        """Say whether newer keys might help; refuse a token for any other reason."""
        from .jwt import check_token  # noqa: PLC0415 - an extra

        try:
            check_token(token, keys, rules, now=self._clock.time())
        except RefusedError as error:
            if error.refusal is not Refusal.TOKEN_KEY_UNKNOWN:
                raise
            return True
        return False


async def _ask(verify: Verify, token: str) -> None:
    """Refuse what is merely true in an `if`, such as claims that nobody looked at, as well."""
    try:
        async with asyncio.timeout(_VERIFY_SECONDS):
            said: Any = verify(token)
            if inspect.isawaitable(said):
                said = await said
    except (Exception, asyncio.CancelledError) as error:  # its text may show the token
        if is_cancelled():
            raise
        logger.warning("verify failed with %s", type(error).__name__)
        raise RefusedError(Refusal.VERIFIER_FAILED) from None
    if said is True:
        return
    if said is False or said is None:
        raise RefusedError(Refusal.TOKEN_REFUSED)
    logger.warning("verify returned %s, not a bool", type(said).__name__)
    raise RefusedError(Refusal.VERIFIER_FAILED)
