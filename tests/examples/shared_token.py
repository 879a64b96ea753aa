# shared_token.py
import json
import os
from datetime import datetime
from pathlib import Path

from income_client import Secret, StoredToken


class TokenFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def load(self) -> StoredToken | None:
        if not self._path.exists():
            return None
        text, end, lifetime = json.loads(self._path.read_text())
        expires_at = datetime.fromisoformat(end)
        return StoredToken(access_token=Secret(text), expires_at=expires_at, lifetime=lifetime)

    async def save(self, token: StoredToken) -> None:
        held = [token.access_token.reveal(), token.expires_at.isoformat(), token.lifetime]
        unfinished = self._path.with_suffix(f".{os.getpid()}")
        unfinished.touch(mode=0o600)
        unfinished.write_text(json.dumps(held))
        unfinished.replace(self._path)
