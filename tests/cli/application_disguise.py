"""Records whose personal data is written in letters that nothing else is written in.

What is personal is what the records themselves keep out of their reprs.
"""

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

import attrs

from income_client import Document, Paystub
from income_client.records.fields import masked
from income_client.records.mapping import UntypedDict

LETTERS: Final = "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ"
"""Georgian: what is personal has these letters only."""
BORN: Final = date(1907, 3, 9)
"""Every day of birth, and every day on which somebody moved."""
_DAYS: Final = frozenset({"date_of_birth", "start_date", "end_date"})
_UNKNOWN: Final = frozenset({"extra", "extracted_extra"})
_KEYED: Final = frozenset({"applicants", "income_calculations", "documents"})


def disguised(value: Any, words: list[str]) -> Any:
    """Return a record with every personal text replaced by one of the words.

    Args:
        value: a record, or what is in one.
        words: texts of `LETTERS`; used one after the other, again and again.
    """
    return _Disguise(words).of(value)


class _Disguise:
    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._used = 0

    def of(self, value: Any) -> Any:
        if attrs.has(type(value)):
            known = {each.name: self._field(value, each) for each in attrs.fields(type(value))}
            return attrs.evolve(value, **known)
        if isinstance(value, tuple):
            return tuple(self.of(each) for each in value)
        return "".join(c for c in value if c not in LETTERS) if isinstance(value, str) else value

    def _field(self, record: Any, each: "attrs.Attribute[Any]") -> Any:
        value = getattr(record, each.name)
        if each.name in _UNKNOWN:
            return UntypedDict({self._word(): self._word()})
        if each.name in _DAYS:
            return BORN
        if each.name in _KEYED and isinstance(value, Mapping):
            return {self._key(key): self.of(entry) for key, entry in value.items()}
        if isinstance(record, Document) and each.name == "extracted_data":
            is_known = isinstance(value, Paystub)
            return self.of(value) if is_known else {self._word(): self._word()}
        return self._hidden(value) if each.repr is masked else self.of(value)

    def _hidden(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._word()
        if isinstance(value, tuple):
            return tuple(self._hidden(each) for each in value)
        return value

    def _key(self, key: str) -> str:
        return key if key in {"applicant1", "paystub", "w2"} else f"{self._word()}{key!r}"

    def _word(self) -> str:
        self._used += 1
        return self._words[self._used % len(self._words)]
