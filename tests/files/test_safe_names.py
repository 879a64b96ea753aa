"""Texts from outside as components of paths: what is taken out, and that no two meet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client.downloads.naming import safe_component

ANY_TEXT = st.text(st.characters(), max_size=200)
NASTY = st.text(st.sampled_from('aA.~-_ /\\:*?"<>|\0\n\u202e\ud800é\u0301CON1¹😀0f'), max_size=12)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "doc-1",
        "2f6c1a3e-0000-4000-8000-1234567890ab",
        "Größe",
        "a b",
        "a.pdf",
        "x" * 120,
        "a~b",
    ],
)
def test_a_safe_text_stays_as_it_is(text: str) -> None:
    """Ids as the service makes them are not disguised."""
    assert safe_component(text) == text


@pytest.mark.parametrize(
    ("text", "stem"),
    [
        ("", "_"),
        (".", "_"),
        ("..", "_"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("/etc/passwd", "_etc_passwd"),
        ("C:\\x", "C__x"),
        ("-rf", "rf"),
        ("~root", "root"),
        (" a ", "a"),
        ("a.", "a"),
        ("a\0b\nc\x7f", "abc"),
        ("gpj\u202efdp", "gpjfdp"),
        ("a\ufeff\u200bb", "ab"),
        ("a\u2028b\ue000c\ud800d\U000e0001", "abcd"),
        ("a\u00a0b", "a_b"),
        ("e\u0301", "é"),
        ("e\u200b\u0301", "é"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("Com¹", "_Com¹"),
        ("lpt9 .a.b", "_lpt9 .a.b"),
        ("a~12345678", "a~12345678"),
        ("a~ABCDEF00", "a~ABCDEF00"),
    ],
)
def test_what_is_changed_is_marked(text: str, stem: str) -> None:
    """A changed text ends with a part of its own hash."""
    safe = safe_component(text)
    assert safe[:-9] == stem
    assert safe[-9] == "~"
    assert set(safe[-8:]) <= set("0123456789abcdef")


DEVICES = (
    *("CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"),
    *("COM0", "COM1", "COM2", "COM3", "COM4", "COM5", "COM6", "COM7", "COM8", "COM9"),
    *("LPT0", "LPT1", "LPT2", "LPT3", "LPT4", "LPT5", "LPT6", "LPT7", "LPT8", "LPT9"),
    *("COM¹", "COM²", "COM³", "LPT¹", "LPT²", "LPT³"),
)
"""Names that Windows reads as a device, in any folder and with any extension."""


@pytest.mark.parametrize("name", DEVICES)
def test_no_file_is_named_like_a_device(name: str) -> None:
    """Not in small letters and not before an extension."""
    for text in (name, name.lower(), f"{name}.pdf", f"{name} .a"):
        assert safe_component(text)[:-9] == f"_{text}"
    assert safe_component(f"{name}X") == f"{name}X"


def test_a_long_text_is_cut_between_characters() -> None:
    """The limit is one of bytes, and no character is cut in two."""
    safe = safe_component("é" * 61)
    assert safe[:-9] == "é" * 55
    assert len(safe.encode()) == 119


@given(st.lists(st.one_of(ANY_TEXT, NASTY), unique=True, max_size=20))
def test_two_texts_never_meet_in_one_name(texts: list[str]) -> None:
    """What differs before differs after, and the result of one text is not that of another."""
    texts = list(dict.fromkeys([*texts, *map(safe_component, texts)]))
    assert len({safe_component(text) for text in texts}) == len(texts)
