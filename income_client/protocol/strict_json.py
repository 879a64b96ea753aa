"""JSON text to plain values, hostile text included; knows no record and no field.

Refused here: what is not whole JSON in UTF-8, keys that stand twice, and in
content without a known type whatever could not be written back as it came.
"""

import json
from typing import Any, Final

import orjson

from income_client.errors import DecodeError, PayloadFault

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_DEEPEST: Final = 100
_EXACT_BELOW: Final = float(2**63)
_ALWAYS_KEPT: Final = frozenset({str, int, bool, type(None)})

_TOO_DEEP: Final = "nested too deeply"


def parse(body: bytes) -> Any:
    """Return what a JSON text means, or a `DecodeError` as a value.

    The error is retryable if the text is not whole JSON, as a reply that was cut
    short or written by a proxy is not; asked again, the service may do better.
    """
    body = body.removeprefix(_BYTE_ORDER_MARK)
    try:
        tree = orjson.loads(body)
        rendered = orjson.dumps(tree)
    except orjson.JSONDecodeError:
        return DecodeError((PayloadFault("$", "not JSON, or cut short"),), retryable=True)
    except orjson.JSONEncodeError:
        return DecodeError((PayloadFault("$", _TOO_DEEP),))
    if rendered == body or _has_as_many_keys(body, rendered):
        return tree
    reason = _repeated_key(body)
    return tree if reason is None else DecodeError((PayloadFault("$", reason),))


def _has_as_many_keys(body: bytes, rendered: bytes) -> bool:
    # A colon separates a key from its value or stands in a string, as itself or as \u003a.
    # Without that escape, what was written again lacks colons only where it lacks a key.
    # The lone backslash is looked for first because that is a hundred times as fast.
    if b"\\" in body and b"\\u003" in body:
        return False
    return rendered.count(b":") == body.count(b":")


def _repeated_key(body: bytes) -> str | None:
    repeated = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeated
        repeated = repeated or len(dict(pairs)) != len(pairs)

    try:
        json.loads(body.decode(), object_pairs_hook=look, parse_int=len, parse_float=len)
    except RecursionError:
        return _TOO_DEEP
    return "a key stands twice in one object" if repeated else None


def is_flat(value: Any) -> bool:
    """Return whether this is what most content is: one value, or an object of ordinary ones.

    Without a known type, it can be kept.
    """
    for item in value.values() if type(value) is dict else (value,):
        kind = type(item)
        if kind is float:
            if not -_EXACT_BELOW < item < _EXACT_BELOW:
                return False
        elif kind not in _ALWAYS_KEPT:
            return False
    return True


def untyped_refusal(value: Any) -> str | None:
    """Return why content without a known type cannot be kept, or None if it can.

    A number of 2**63 and more may have been an integer that lost digits.
    """
    level: list[Any] = [[value]]
    for _ in range(_DEEPEST + 1):
        deeper: list[Any] = []
        for container in level:
            for item in container.values() if type(container) is dict else container:
                if type(item) is dict or type(item) is list:
                    deeper.append(item)
                elif type(item) is float and not -_EXACT_BELOW < item < _EXACT_BELOW:
                    return "a number beyond 64 bits"
        if not deeper:
            return None
        level = deeper
    return _TOO_DEEP
