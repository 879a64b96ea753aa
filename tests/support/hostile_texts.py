"""Ids and other texts that a service may send, and that act on what they are printed to."""

from typing import Final

HOSTILE: Final = {
    "clears the screen": "d\x1b[2Jx",
    "forges a line": "d\r\nERROR forged",
    "C1 control": "d\x9b31m",
    "reverses the text": "d\u202egnp.exe",
    "line separator": "d\u2028x",
    "paragraph separator": "d\u2029x",
    "next line": "d\x85x",
    "zero width": "d\u200bx",
    "soft hyphen": "d\u00adx",
    "byte order mark": "\ufeffd",
    "tag": "d\U000e0041x",
    "bell": "d\x07x",
    "delete": "d\x7fx",
}
"""Texts by what they do."""

IDS: Final = (
    "app-1", "-abc", "--abc", "=1+1", "+abc", "@abc", "'-abc", "''=1", "x;=y", "x;'=y", "; =x",
    ';"=x', "\uff1d1", "\uff0bx", "\uff0dx", "\uff20x", "a\u00adb", "a\u00a0b", "a\u200bb",
    "a\u200db", "a\u202eb", "a\u3000b", "a\u2028b", "\u00a0a", "a\u00a0", "\ufeffa", "a b", "a,b",
    "[a]", "{a}",
    '{"application_id":"x"}', 'a"b', '"a"', '""', " a", "a ", "  ", "'", "a'b", "a\\b",
    "a\\nb", "\u00e4\u00f6\u00fc", "\u6f22\u5b57", "\U0001f600", "e\u0301",
    "application_id", "null", "true",
    "#a", "a#b", "a/b", "a%2Fb", "..a", "~", "$(id)", "`id`", "a|b", "a&b", "*", "?", "a\u0338",
    "\u6f22" * 400, "a" * 512, "1", "1e5", "0x10", "NaN", "2026-01-31", "2026-01-31T00:00:00Z",
)  # fmt: skip
"""Ids without control characters, which requests can carry."""
