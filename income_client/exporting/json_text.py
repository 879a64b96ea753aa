"""Records read back from the JSON that `to_json` writes; knows no file."""

from typing import TypeVar

from income_client.errors import ConfigurationError, DecodeError
from income_client.protocol.wire import decode

T = TypeVar("T")


def from_json(record_class: type[T], text: bytes | str) -> T:
    """Read a record that `to_json` has written, as strictly as the service's replies.

    Args:
        record_class: of the record, such as `ApplicationRecord` for a line of an export.
        text: the JSON; bytes are UTF-8.

    Returns:
        A record equal to the one that was written.

    Raises:
        DecodeError: this is not JSON, or not of such a record.
        ConfigurationError: ``text`` is neither bytes nor a text.
    """
    written: object = text
    del text
    read: T | DecodeError | ConfigurationError
    match written:
        case str():
            read = decode(record_class, written.encode("utf-8", "surrogatepass"))
        case bytes():
            read = decode(record_class, written)
        case _:
            read = ConfigurationError("text is bytes or a str")
    del written
    if isinstance(read, DecodeError | ConfigurationError):
        raise read
    return read
