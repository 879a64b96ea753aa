"""Names of parts: what they say by themselves, and which are believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.downloads.part_file import PartName, is_strong

MARKS = st.text(st.sampled_from([chr(code) for code in range(0x21, 0x7F) if code != 0x22])).map(
    lambda text: f'"{text}"'
)


@given(st.text(), st.one_of(st.none(), MARKS.filter(is_strong)))
def test_a_name_says_what_it_is_a_part_of(target: str, mark: str | None) -> None:
    """The name is enough to find the target again and to ask for the rest."""
    name = PartName.of(target, mark, "0a0b0c0d", "12345678")
    text = str(name)
    assert PartName.read(text, target) == name
    assert PartName.read(text, f"{target}x") is None
    assert text.startswith(".")
    assert text.endswith(".part")
    assert "/" not in text
    assert len(text) <= 255


@pytest.mark.parametrize(
    "mark", [None, "", '""', 'W/"abc"', "abc", '"abc', '"a"b"', '"ä"', '"a b"', f'"{"x" * 99}"']
)
def test_another_tag_is_not_kept(mark: str | None) -> None:
    """A weak, absent, odd or long tag does not stand for bytes that can be gone on with."""
    assert not is_strong(mark)


def test_a_tag_of_a_hundred_characters_is_kept() -> None:
    """It fits into a name."""
    mark = f'"{"x" * 98}"'
    assert is_strong(mark)
    assert PartName.of("a", mark, None, "00000000").mark == mark


@pytest.mark.parametrize("middle", ["-", "IiI=", "YWJj", "Ii\n", "ImEiCg==", "ImEi=", "Iw=="])
def test_a_tag_that_nobody_wrote_so_is_none(middle: str) -> None:
    """What decodes to no strong mark, or is written otherwise, is a part without one."""
    model = str(PartName.of("a", None, "0a0b0c0d", "12345678"))
    name = PartName.read(model.replace(".-.", f".{middle}."), "a")
    assert name is None or name.mark is None


@pytest.mark.parametrize(
    ("mark", "written", "now", "can_be"),
    [
        ('"a"', "0a0b0c0d", "0a0b0c0d", True),
        (None, "0a0b0c0d", "0a0b0c0d", False),
        ('"a"', "0a0b0c0d", "0a0b0c0e", False),
        ('"a"', "0a0b0c0d", None, False),
        ('"a"', None, None, False),
    ],
)
def test_only_what_this_boot_has_written_is_believed(
    mark: str | None, written: str | None, now: str | None, can_be: bool
) -> None:
    """A loss of power leaves files whose tail was never written."""
    assert PartName.of("a", mark, written, "12345678").can_be_adopted(now) is can_be
