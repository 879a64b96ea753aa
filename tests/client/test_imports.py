"""What a program loads that only makes a client: it pays for what it uses."""

import subprocess
import sys
from typing import Final

_SCRIPT: Final = """
import sys
from income_client import BasicAuth, IncomeClient
IncomeClient("https://income.example", auth=BasicAuth("user", "invented"))
print(*sys.modules)
"""
_LATER: Final = (
    *("income_client.polling", "income_client.downloads"),
    *("income_client.disk", "income_client.checkpoints", "income_client.walk"),
    *("income_client.events", "income_client.fetching", "income_client.records.files"),
    *("income_client.exporting", "income_client.emulator", "income_client.telemetry"),
    *("income_client.receivers", "sqlite3", "opentelemetry", "obstore", "pyarrow"),
)


def test_making_a_client_loads_no_poller_no_downloads_no_events_and_no_database() -> None:
    """These come with the first call that needs them."""
    command = [sys.executable, "-c", _SCRIPT]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = ended.stdout.split()
    assert "income_client.client" in loaded
    assert [name for name in loaded if name.startswith(_LATER)] == []
