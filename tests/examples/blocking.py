# blocking.py
# pip install anyio
import sys

from anyio.from_thread import start_blocking_portal

from income_client import IncomeClient

if __name__ == "__main__":
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(IncomeClient.from_env()) as client,
    ):
        for application_id in sys.argv[1:]:
            application = portal.call(client.get_application, application_id)
            print(application.application_id, application.last_updated_at)
