# forget_deleted.py
import asyncio

from income_client import IncomeClient, IncomeClientError, NotFoundError, SQLiteCheckpointStore


async def main() -> None:
    store = SQLiteCheckpointStore("nightly.db")
    async with IncomeClient.from_env() as client:
        for letter in await store.dead_letters("default"):
            if letter.application_id is None:
                continue
            try:
                await client.get_application(letter.application_id)
            except NotFoundError:
                print(letter.application_id)  # delete your copy here
                await store.forget("default", [letter.key])
            except IncomeClientError:
                continue  # the poller tries it again


if __name__ == "__main__":
    asyncio.run(main())
