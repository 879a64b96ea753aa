# lookup_waiting.py
import sys

from income_client import NotFoundError, SyncIncomeClient

with SyncIncomeClient.from_env() as client:
    for application_id in sys.argv[1:]:
        try:
            print(application_id, client.get_application(application_id).last_updated_at)
        except NotFoundError:
            print(application_id, "is unknown")
    print(sum(1 for _ in client.list_applications("2026-06-01")), "updated since June")
