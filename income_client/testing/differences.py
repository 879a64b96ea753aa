"""Fields in which two records differ, for the report of a failed assertion.

The values that a record's repr masks are left out. pytest's own comparison shows them, and reports
are kept where a borrower's data does not belong.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import fields, has

from income_client.records.fields import UntypedDict, shown_key

_RECORDS: Final = "income_client.records."


def list_differences(left: Any, right: Any, path: str = "") -> Iterator[str]:
    """Return a line for each field of two unequal values that differs, with its ``path``."""
    values = (left, right)
    if _is_record(left) and type(left) is type(right):
        yield from _list_field_differences(left, right, path)
    elif any(isinstance(value, UntypedDict) or has(type(value)) for value in values):
        # Fields that the contract does not name, or a user's own class: all may be personal.
        yield f"{path}: differs"
    elif all(isinstance(value, Mapping) for value in values):
        yield from _list_item_differences(left, right, path)
    elif all(isinstance(value, tuple | list) for value in values):
        if len(left) != len(right):
            yield f"{path}: {len(left)} entries != {len(right)} entries"
        for place, (one, other) in enumerate(zip(left, right, strict=False)):
            if one != other:
                yield from list_differences(one, other, f"{path}[{place}]")
    else:
        yield f"{path}: {left!r} != {right!r}"


def _list_field_differences(left: Any, right: Any, path: str) -> Iterator[str]:
    for field in fields(type(left)):
        one, other = getattr(left, field.name), getattr(right, field.name)
        place = f"{path}.{field.name}"
        if not field.eq or one == other:
            continue
        if field.repr is True or _is_record(one):
            yield from list_differences(one, other, place)
        else:
            yield f"{place}: differs"


def _list_item_differences(
    left: Mapping[Any, Any], right: Mapping[Any, Any], path: str
) -> Iterator[str]:
    for key in dict.fromkeys((*left, *right)):
        place = f"{path}[{shown_key(key)}]"
        if key not in right:
            yield f"{place}: only on the left"
        elif key not in left:
            yield f"{place}: only on the right"
        elif left[key] != right[key]:
            yield from list_differences(left[key], right[key], place)


def _is_record(value: object) -> bool:
    return has(type(value)) and type(value).__module__.startswith(_RECORDS)
