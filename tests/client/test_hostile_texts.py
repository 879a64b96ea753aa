"""Texts of errors and log lines hold nothing that moves a cursor or begins a line."""

import pytest

from income_client import (
    DecodeError,
    DownloadError,
    IncomeClientError,
    NotFoundError,
    UnsafeLinkError,
)
from income_client.errors import LinkRefusal, name_call
from income_client.system.logs import GuardedLogger
from tests.support.hostile_texts import HOSTILE


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_an_error_shows_no_hostile_text(text: str) -> None:
    """The attributes hold the texts as they came."""
    errors: list[IncomeClientError] = [
        NotFoundError("404 Not Found", call="get_application", subject=text),
        DownloadError(f"refused by {text}", document_id=text),
        UnsafeLinkError("not allowed", reason=LinkRefusal.HOST, subject=text),
        DecodeError((), is_row=True, call="list_applications", subject=text),
        DecodeError((), is_row=True, subject=text),
    ]
    named = IncomeClientError("failed")
    name_call(named, "download", text)
    for error in [*errors, named]:
        assert error.subject == text
        assert str(error).isprintable()
        assert error.message.isprintable()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_log_line_shows_no_hostile_text(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """The fields of a record hold the texts as they came."""
    GuardedLogger("income_client.test").warning("%s, %r, %d", text, text, 1, extra={"id": text})
    (record,) = caplog.records
    assert record.getMessage().isprintable()
    assert record.__dict__["id"] == text
