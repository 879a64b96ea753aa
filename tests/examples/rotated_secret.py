# rotated_secret.py
import asyncio
import json
import os
from pathlib import Path

from income_client import IncomeClient, OAuth2ClientCredentials


def read_credentials() -> OAuth2ClientCredentials:
    """Ask your vault: here, the file that its agent writes."""
    kept = json.loads(Path("credentials.json").read_text())
    return OAuth2ClientCredentials(kept["id"], kept["secret"])


async def main() -> None:
    address = os.environ["INCOME_BASE_URL"]
    async with IncomeClient(address, auth=read_credentials) as client:
        page = await client.get_application_page(limit=1)
        print(page.applications[0].application_id)


asyncio.run(main())
