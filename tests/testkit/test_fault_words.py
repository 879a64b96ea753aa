"""The guide's table of the words for faults, each of them played until the client gives up."""

import re
from pathlib import Path
from typing import Final

import pytest

from income_client import IncomeClient, IncomeClientError, RetryPolicy, Timeouts
from income_client.emulator.faults import WORDS
from income_client.testing import IncomeService
from tests.support.pages import GUIDE

ROWS: Final = re.findall(
    r"^\| (`\w+`(?:, `\w+`)*) \| `(\w+)` \| `(\w+)` \| (yes|no) \|",
    (GUIDE / "testing.md").read_text("utf-8"),
    re.MULTILINE,
)
"""Words, the errors of a call and of the token, and whether these are retryable."""
PLAYED: Final = [
    (call, word, error, retryable == "yes")
    for words, of_call, of_token, retryable in ROWS
    for word in re.findall(r"\w+", words)
    for call, error in (("get_application", of_call), ("token", of_token))
]
WORDS_OF_ROWS: Final = [word for call, word, *_ in PLAYED if call == "token"]
FILE_CONTENTS: Final = ("body", "malformed", "not_json")
"""Words that replace a file by another whole file."""

pytestmark = [
    pytest.mark.income_service(applications=1),
    pytest.mark.income_client(timeouts=Timeouts(read=0.05), retry=RetryPolicy(max_attempts=2)),
]


def lasting(call: str, word: str) -> str:
    """Return the text of a fault of all requests; a trickle is slower than the time limit."""
    return f"{call}: {word} times=all" + (" interval=1" if word == "trickle" else "")


def test_every_word_is_in_the_table() -> None:
    """Statuses are there by examples; ``ok`` is no fault."""
    assert len(WORDS_OF_ROWS) == len(set(WORDS_OF_ROWS))
    assert {word for word in WORDS_OF_ROWS if not word.isdecimal()} == WORDS.keys() - {"ok"}


@pytest.mark.parametrize(("call", "word", "name", "is_retryable"), PLAYED)
async def test_a_lasting_fault_gives_the_error_of_the_table(
    income_service: IncomeService,
    income_api: IncomeClient,
    call: str,
    word: str,
    name: str,
    is_retryable: bool,
) -> None:
    income_service.faults.add(lasting(call, word))
    with pytest.raises(IncomeClientError) as raised:
        await income_api.get_application(income_service.ids[0])
    assert (type(raised.value).__name__, raised.value.retryable) == (name, is_retryable)


@pytest.mark.parametrize(
    ("word", "is_retryable"), [(word, last) for call, word, _, last in PLAYED if call == "token"]
)
async def test_a_lasting_fault_of_a_file_is_a_download_error(
    income_service: IncomeService,
    income_api: IncomeClient,
    tmp_path: Path,
    word: str,
    is_retryable: bool,
) -> None:
    documents = await income_api.get_documents(income_service.ids[0])
    document = next(iter(documents.all())).document
    income_service.faults.add(lasting("file", word))
    if word in FILE_CONTENTS:
        await income_api.download(document, tmp_path / "file")
        return
    with pytest.raises(IncomeClientError) as raised:
        await income_api.download(document, tmp_path / "file")
    assert (type(raised.value).__name__, raised.value.retryable) == ("DownloadError", is_retryable)
