# store_files.py
# pip install obstore
import obstore
from obstore.store import ObjectStore

from income_client import DownloadFailure, IncomeClient


async def store_files(client: IncomeClient, ids: list[str], store: ObjectStore) -> None:
    documents = client.fetch_documents(ids)
    async for file in client.download_all(documents, "outbox", on_error="yield"):
        if isinstance(file, DownloadFailure):
            print(file.document_id, "later:" if file.error.retryable else "failed:", file.error)
        else:
            # The last three parts of the path are safe names, unlike the ids they are made of.
            key = "/".join(file.path.parts[-3:])
            await obstore.put_async(store, key, file.path)
            file.path.unlink()
