"""What `to_json` has written is read back equal."""

from typing import Any

import pytest
from attrs import frozen
from hypothesis import given

from income_client import (
    Application,
    ApplicationRecord,
    BasicAuth,
    ConfigurationError,
    DecodeError,
    Window,
    from_json,
    to_json,
)
from tests.support.export_records import known_record, records


@given(records())
def test_a_line_equals_its_record(record: ApplicationRecord) -> None:
    """Records survive their JSON, unknown fields, amounts and times included."""
    line = to_json(record)
    assert b"\n" not in line
    assert from_json(ApplicationRecord, line) == record


def test_a_text_is_as_good_as_bytes() -> None:
    """Lines of files that were opened as text are read as well."""
    record = known_record()
    assert from_json(ApplicationRecord, to_json(record).decode() + "\n") == record
    assert from_json(Application, to_json(record.application)) == record.application


@pytest.mark.parametrize("text", [b"", b"{", "{}", '"\ud800"', b'{"application":1}'])
def test_other_content_is_a_decode_error(text: bytes | str) -> None:
    """It is read as strictly as the service's replies."""
    with pytest.raises(DecodeError):
        from_json(ApplicationRecord, text)


def test_other_things_are_no_text() -> None:
    """An argument that cannot be meant is told as one."""
    nothing: object = None
    with pytest.raises(ConfigurationError, match="text is bytes or a str"):
        from_json(ApplicationRecord, nothing)  # type: ignore[arg-type]


@frozen
class Stranger:
    """A class that nobody registered."""

    amount: int


@pytest.mark.parametrize("kind", [int, dict, Stranger, BasicAuth, Window, list[int], None, []])
def test_only_classes_of_records_are_read(kind: Any) -> None:
    """What `to_json` does not write is not read either."""
    with pytest.raises(ConfigurationError, match="no class of records"):
        from_json(kind, b"1")
