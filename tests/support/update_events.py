"""Events as a relay makes them."""

from datetime import UTC, datetime

from income_client.engines.relay import UpdateEvent

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def event(application_id: str = "app-1", event_id: str = "1") -> UpdateEvent:
    return UpdateEvent(id=event_id, application_id=application_id, updated_at=NOW)
