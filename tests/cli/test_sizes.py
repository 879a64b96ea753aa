"""Sizes as people write them."""

import pytest

from income_client.cli.emulating.sizes import read_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("20000", 20_000),
        ("20000 B", 20_000),
        ("500kB", 500_000),
        ("500KB", 500_000),
        ("1.5 MB", 1_500_000),
        ("2MiB", 2 * 2**20),
        (" 64KiB ", 65_536),
        ("1GB", 10**9),
        ("2GiB", 2**31),
    ],
)
def test_sizes(text: str, size: int) -> None:
    """Powers of ten and of two, in any case, with and without a space."""
    assert read_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "k", "0", "0.1", "-1", "1e3", "1,000", "5TB", "3GiB", "nan", "1kB2", "٣", "9" * 99]
)
def test_what_is_none(text: str) -> None:
    """Anything else, and what no file here could have, is refused."""
    with pytest.raises(ValueError, match="a size is"):
        read_size(text)
