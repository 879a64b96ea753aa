# own_session.py
import asyncio
import ssl
from types import SimpleNamespace

import aiohttp

from income_client import IncomeClient


def connection_trace() -> aiohttp.TraceConfig:
    """Print how long each new connection takes."""

    async def begin(_: object, context: SimpleNamespace, __: object) -> None:
        context.began = asyncio.get_running_loop().time()

    async def end(_: object, context: SimpleNamespace, __: object) -> None:
        print(f"connected in {asyncio.get_running_loop().time() - context.began:.3f} s")

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_start.append(begin)
    trace.on_connection_create_end.append(end)
    return trace


async def main() -> None:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    async with (
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            headers={"User-Agent": "lender/1.0"},
            trace_configs=[connection_trace()],
        ) as session,
        IncomeClient.from_env(session=session) as client,
    ):
        print(await client.service_time())


asyncio.run(main())
