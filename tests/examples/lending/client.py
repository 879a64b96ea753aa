# lending/client.py
from income_client import SyncIncomeClient

income = SyncIncomeClient.from_env()
