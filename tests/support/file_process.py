"""A process that downloads the documents of application ``app-1``, to be killed by a test.

``python -m tests.support.file_process URL FOLDER`` says ``over`` once all are there.
"""

import asyncio
import sys
from pathlib import Path

from income_client import BasicAuth, DownloadPolicy, IncomeClient
from tests.support.storage import PASSWORD, USER


async def download(url: str, folder: Path) -> None:
    """Download all documents into a folder, each under its id."""
    policy = DownloadPolicy(
        allowed_hosts=("127.0.0.1",), require_https=False, allow_private_networks=True
    )
    auth = BasicAuth(USER, PASSWORD)
    async with IncomeClient(url, auth=auth, downloads=policy) as client:
        documents = await client.get_documents("app-1")
        async for _ in client.download_all(documents, folder, names="{document_id}"):
            pass


if __name__ == "__main__":
    asyncio.run(download(sys.argv[1], Path(sys.argv[2])))
    print("over")  # noqa: T201 - it is waited for
