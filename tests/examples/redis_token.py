# redis_token.py
# pip install redis
import json
import uuid
from datetime import datetime

from redis.asyncio import Redis

from income_client import StoredToken, TokenStore


class RedisTokenStore(TokenStore):
    def __init__(self, redis: Redis, key: str = "{income}:token") -> None:
        self._redis, self._key, self._claim_key = redis, key, f"{key}:claim"
        self._claimer = uuid.uuid4().hex

    async def load(self) -> StoredToken | None:
        text = await self._redis.get(self._key)
        if text is None:
            return None
        kept = json.loads(text)
        expires_at = datetime.fromisoformat(kept.pop("expires_at"))
        return StoredToken(expires_at=expires_at, **kept)

    async def save(self, token: StoredToken) -> None:
        kept = {"access_token": token.access_token.reveal(), "lifetime": token.lifetime}
        text = json.dumps({**kept, "expires_at": token.expires_at.isoformat()})
        async with self._redis.pipeline(transaction=True) as commands:
            commands.set(self._key, text, pxat=token.expires_at)
            commands.delete(self._claim_key)
            await commands.execute()

    async def claim(self, seconds: float) -> bool:
        milliseconds = max(1, round(seconds * 1000))
        if await self._redis.set(self._claim_key, self._claimer, px=milliseconds, nx=True):
            return True
        return await self._redis.get(self._claim_key) in (self._claimer, self._claimer.encode())
