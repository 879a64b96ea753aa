"""What a registered class raises while its data is read: named, and nothing else of it shown."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final

import attrs
import pytest

from income_client import DecodeError, from_json, register_document_type
from tests.support.leaks import held_by

CANARY: Final = "c4n4ry"
NUMBERS: Final[Iterator[int]] = count()


def misspelt(value: Any) -> Any:
    """Fail as a converter with a bug does."""
    return value.no_such_method()


def refusing(value: str) -> str:
    """Refuse the value, and repeat it."""
    raise ValueError(value)


@pytest.mark.parametrize(
    ("converter", "name"),
    [(misspelt, "AttributeError"), (refusing, "ValueError"), (float, "ValueError")],
    ids=["bug", "refusal", "conversion"],
)
def test_the_exception_is_named(converter: Callable[[Any], Any], name: str) -> None:
    """A bug of the class looks otherwise than data that it refuses, and no value is shown."""
    made = attrs.make_class(
        f"Form{next(NUMBERS)}",
        {"employer": attrs.field(type=str, converter=converter)},
        frozen=True,
    )
    register_document_type(f"form-{made.__name__}", made)
    with pytest.raises(DecodeError) as caught:
        from_json(made, f'{{"employer":"{CANARY}"}}')
    assert f"not accepted by its class: {name}" in str(caught.value)
    assert CANARY not in held_by(caught.value)
    assert not caught.value.retryable
