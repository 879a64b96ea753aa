# test_backend.py
# pip install pytest pytest-asyncio fastapi httpx
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from web_backend import app, lifespan  # the program of the page about web backends

from income_client.testing import IncomeService


@pytest_asyncio.fixture
async def web(
    income_environment: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[httpx.AsyncClient, None]:
    monkeypatch.chdir(tmp_path)  # for the program's store
    transport = httpx.ASGITransport(app)
    async with lifespan(app), httpx.AsyncClient(transport=transport, base_url="http://web") as web:
        yield web


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("steps", "status"),
    [("503 retry-after=30", 200), ("503 times=all", 503), ("404", 404), ("malformed", 502)],
)
async def test_a_failure_has_its_status(
    income_service: IncomeService, web: httpx.AsyncClient, steps: str, status: int
) -> None:
    income_service.faults.add(f"get_application: {steps}")
    reply = await web.get(f"/applications/{income_service.ids[0]}")
    assert reply.status_code == status
