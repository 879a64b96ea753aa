"""Whole files: all bytes of a complete file come from one version, whatever the storage does."""

from typing import Any, Final

import pytest

from income_client import DownloadError, DownloadPolicy, IncomeClientError
from income_client.downloads.transfer import (
    WITH_FILE,
    OutdatedError,
    StoredFile,
    Transfer,
    failure_of_reply,
    is_refusal,
    read_stored_file,
)
from income_client.errors import ConnectionFailedError

CUT: Final = ConnectionFailedError("cut")
DIGITS: Final = b"0123456789abcdefghij"


class Receiver:
    """Takes in replies as a download does, and keeps the bytes."""

    def __init__(self, policy: DownloadPolicy | None = None) -> None:
        self.transfer = Transfer(policy or DownloadPolicy())
        self.content = b""
        self.now = 0.0

    def reply(
        self,
        status: int,
        body: bytes = b"",
        *,
        is_cut: bool = False,
        seconds: float = 0,
        **fields: str,
    ) -> bool | IncomeClientError:
        """Take in a reply; header fields are given with underscores."""
        headers = {name.replace("_", "-"): text for name, text in fields.items()}
        if "content-length" not in headers:
            headers["transfer-encoding"] = "chunked"
        try:
            try:
                self._take(status, headers, body, seconds)
                if is_cut:
                    raise CUT
            except IncomeClientError as error:
                self.transfer.break_off(error)
            else:
                self.transfer.end_body()
        except IncomeClientError as error:
            return error
        return self.transfer.is_whole

    def _take(self, status: int, headers: dict[str, str], body: bytes, seconds: float) -> None:
        if status not in WITH_FILE:
            raise failure_of_reply(status, headers)
        if self.transfer.begin_body(status, headers, self.now):
            self.content = b""
        for place in range(0, len(body), 7):
            piece = body[place : place + 7]
            self.now += seconds
            self.content += piece
            self.transfer.count_bytes(len(piece), self.now)

    def all(
        self, body: bytes, etag: str = '"1"', *, keep: int | None = None
    ) -> bool | IncomeClientError:
        """Take in a 200, of which only some bytes may come."""
        sent = body if keep is None else body[:keep]
        length = str(len(body))
        return self.reply(200, sent, is_cut=keep is not None, content_length=length, etag=etag)


def is_retryable(end: object) -> bool:
    """Return whether a request may be repeated after an error reply."""
    assert isinstance(end, DownloadError)
    return end.retryable


def part(receiver: Receiver, first: int, total: int, etag: str = '"1"') -> bool | IncomeClientError:
    """Take in the rest of a file of this length."""
    place = f"bytes {first}-{total - 1}/{total}"
    return receiver.reply(206, DIGITS[first:total], content_range=place, etag=etag)


NO_PROOFS: Final[tuple[tuple[int, dict[str, Any]], ...]] = (
    (206, {"content_range": "bytes 3-9/10", "etag": '"1"'}),
    (206, {"content_range": "bytes 4-9/11", "etag": '"1"'}),
    (206, {"content_range": "bytes 4-9/10", "etag": '"2"'}),
    (206, {"content_range": "bytes 4-9/10", "etag": 'W/"1"'}),
    (206, {"content_range": "bytes 4-9/10"}),
    (206, {"content_range": "bytes 4-9/*", "etag": '"1"'}),
    (206, {"content_range": "bytes 5-9/10", "etag": '"1"'}),
    (206, {"content_range": "bytes 4-6/7", "etag": '"1"'}),
    (206, {"etag": '"1"'}),
    (206, {"content_range": "bytes 9-4/10", "etag": '"1"'}),
    (206, {"content_range": "bytes 4-10/10", "etag": '"1"'}),
    (206, {"content_range": "bytes 4-9/10", "content_length": "5", "etag": '"1"'}),
    (206, {"content_range": "items 4-9/10", "etag": '"1"'}),
    (206, {"content_type": "multipart/byteranges; boundary=x", "etag": '"1"'}),
    (416, {"content_range": "bytes */4"}),
)


def test_what_does_not_prove_that_it_goes_on_starts_over() -> None:
    """Another place, length or version than that of what came voids it."""
    for status, fields in NO_PROOFS:
        receiver = Receiver()
        receiver.all(b"0123456789", keep=4)
        receiver.transfer.next_request()
        assert is_retryable(receiver.reply(status, b"456789", **fields))
        assert receiver.transfer.next_request() == {}
        assert receiver.transfer.received == 0


def test_the_length_of_a_version_holds_once_it_is_given() -> None:
    """A later reply may give none; one that gives another, or ends early, contradicts it."""
    receiver = Receiver()
    receiver.all(DIGITS, keep=8)
    assert receiver.reply(200, DIGITS[:5], is_cut=True, etag='"1"') is not True
    receiver.transfer.next_request()
    assert is_retryable(part(receiver, 5, 10))
    receiver = Receiver()
    receiver.all(DIGITS, keep=8)
    assert receiver.reply(200, DIGITS[:12], etag='"1"') is not True
    receiver.transfer.next_request()
    assert receiver.reply(206, DIGITS[12:14], content_range="bytes 12-13/20", etag='"1"') is False
    receiver.transfer.next_request()
    assert part(receiver, 14, 20) is True
    assert receiver.content == DIGITS


@pytest.mark.parametrize("is_new", [True, False], ids=["another version", "never given"])
def test_another_version_has_another_length(*, is_new: bool) -> None:
    """The length of the earlier version is forgotten, and so does not contradict the new one."""
    receiver = Receiver()
    if is_new:
        receiver.all(DIGITS, keep=8)
    receiver.reply(200, DIGITS[:5], is_cut=True, etag='"2"')
    receiver.transfer.next_request()
    assert part(receiver, 5, 10, '"2"') is True
    assert receiver.content == DIGITS[:10]


def test_a_part_where_all_was_asked_for_is_refused() -> None:
    """The bytes before the part are unknown; those of earlier requests do not count."""
    told: Any = {"content_range": "bytes 4-9/10"}
    assert not is_retryable(Receiver().reply(206, b"456789", **told, etag='"1"'))
    receiver = Receiver()
    receiver.all(b"0123456789", keep=4)
    receiver.transfer.next_request()
    receiver.reply(206, b"456789", **told, etag='"2"')
    receiver.transfer.next_request()
    assert not is_retryable(receiver.reply(206, b"456789", **told))


def test_a_file_beyond_the_limit_is_refused_before_and_while_it_comes() -> None:
    announced, untold, whole = (Receiver(DownloadPolicy(max_bytes=10)) for _ in range(3))
    assert isinstance(announced.all(b"x" * 11), DownloadError)
    assert announced.content == b""
    assert isinstance(untold.reply(200, b"x" * 11), DownloadError)
    assert whole.reply(200, b"x" * 10) is True


def test_a_trickle_is_no_progress() -> None:
    """A connection that brings less than the least rate for 30 s is given up, and did not help."""
    receiver = Receiver(DownloadPolicy(minimum_rate=1.0))
    end = receiver.reply(200, b"x" * 70, seconds=10, content_length="70", etag='"1"')
    assert is_retryable(end)
    assert receiver.transfer.received == len(receiver.content) == 21
    patient = Receiver(DownloadPolicy(minimum_rate=0))
    assert patient.reply(200, b"x" * 70, seconds=10, content_length="70") is True


def test_each_half_minute_of_a_connection_is_measured_for_itself() -> None:
    """A connection that was fast is given up once it trickles, a steady one is kept for ever."""
    transfer = Transfer(DownloadPolicy(minimum_rate=1.0))
    transfer.begin_body(200, {"content-length": "100000", "etag": '"1"'}, now=0)
    for second in range(2, 302, 2):
        transfer.count_bytes(4, second)
    transfer.count_bytes(5_000, 302)
    transfer.count_bytes(7, 330)
    with pytest.raises(DownloadError, match="too slowly"):
        transfer.count_bytes(7, 361)


def test_a_file_that_starts_over_again_and_again_makes_no_progress() -> None:
    """Bytes that came before do not count as progress when they come again."""
    receiver = Receiver()
    assert receiver.all(b"0123456789", keep=4) is False
    receiver.transfer.next_request()
    void = receiver.reply(206, b"456789", content_range="bytes 4-9/10", etag='"2"')
    assert isinstance(void, DownloadError)
    assert receiver.transfer.next_request() == {}
    assert receiver.all(b"0123456789", keep=4) is CUT
    assert receiver.all(b"0123456789", keep=6) is False


REFUSALS: Final[dict[str, tuple[tuple[int, str], ...]]] = {
    "retried": tuple((status, "") for status in (408, 429, 500, 503, 999)),
    "final": (
        *((status, "") for status in (204, 304, 400, 401, 405, 412, 416)),
        (400, "<Code>InvalidRequest</Code>"),
    ),
    "outdated": (
        *((status, "") for status in (403, 404, 410)),
        (403, "<Code>SignatureDoesNotMatch</Code>"),
    ),
    "expired": (
        (403, "<Code>AccessDenied</Code><Message>Request has expired</Message>"),
        (400, "<Message>This URL has Expired</Message>"),
        (400, "<Code>ExpiredToken</Code>"),
        (400, "<Code>RequestExpired</Code>"),
        (400, "<Code>TokenRefreshRequired</Code>"),
    ),
}


@pytest.mark.parametrize("outcome", REFUSALS)
def test_a_reply_without_the_file_says_what_may_help(outcome: str) -> None:
    """A storage in trouble gives it later, a fresh address where it was refused; else nothing."""
    for status, text in REFUSALS[outcome]:
        found = failure_of_reply(status, {"retry-after": "7"}, text)
        if isinstance(found, OutdatedError):
            assert outcome == ("expired" if found.has_expired else "outdated")
            error = found.error
        else:
            assert outcome == ("retried" if found.retryable else "final")
            error = found
        assert (error.status, error.retry_after) == (status, 7)
        assert error.retryable is (outcome == "retried")
        assert is_refusal(status) or outcome in ("retried", "final")


def test_a_storage_without_a_first_byte_says_nothing_of_the_file() -> None:
    """An empty file has none; a storage that gives no length then is taken as it is."""
    assert read_stored_file(416, {}) == StoredFile(size=None, etag=None, content_type=None)
    empty = StoredFile(size=0, etag='"1"', content_type="image/png")
    headers = {"content-range": "bytes */0", "etag": '"1"', "content-type": "image/png"}
    assert read_stored_file(416, headers) == empty


def test_connections_that_help_are_bounded() -> None:
    """A storage that gives one byte a connection is left after thirty of them."""
    receiver = Receiver()
    body = b"x" * 100
    ends = [receiver.all(body, keep=1)]
    while ends[-1] is False:
        place = int(receiver.transfer.next_request()["Range"][6:-1])
        content_range = f"bytes {place}-{len(body) - 1}/{len(body)}"
        ends.append(receiver.reply(206, b"x", is_cut=True, content_range=content_range, etag='"1"'))
    assert len(ends) == 31
