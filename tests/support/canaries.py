"""Private data of the tests, and a watch over every test that none of it leaks.

All secrets, tokens and signed addresses that are made for tests hold a mark, and so does all that
is invented about borrowers. After each test the watch fails it if one of them was in a log record,
in an error that left the package or in its frames, in an event, in captured output or in a file.
"""

import base64
import binascii
import logging
import pickle
import re
import subprocess
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import pytest

import income_client
from income_client import (
    audit,
    downloads,
    engines,
    errors,
    events,
    exporting,
    receivers,
    records,
    walk,
)
from income_client.errors import IncomeClientError
from income_client.events.instrumentation import Instrumentation
from income_client.system import frames

CANARY: Final = "c4n4ry"
"""In whatever is private: a secret, a token, an address with a signature, a borrower's data."""
SECRET: Final = f"{CANARY}-secret"
"""A password or a client secret."""
TOKEN: Final = f"{CANARY}-token"
"""An access token."""


def _plain(*texts: str) -> dict[str, str]:
    return {text: re.escape(text) for text in texts}


_SECRETS: Final = {
    **_plain(CANARY, "S3CRET"),
    **_plain("YzRuNHJ5", "M0bjRye", "jNG40cn"),  # the canary in Base64, at each of three places
    **_plain("90817263", "1913-02-03", "1913, 2, 3"),  # a borrower's numbers and birthday
    "invented-": r"invented-(?:password|secret|token)",  # of the emulator, and of many tests
    "eyJ": r"eyJ[\w-]{9,}\.[\w-]+\.",  # a token of the emulator, or any other JWT
    "ignature=": r"[Ss]ignature=\w",  # of an address
}
"""Patterns of private data in any text, by a part that is searched for first."""
_QUIET: Final = {
    "invented": r"\binvented\b(?!-)",  # short passwords and tokens of tests
    "token-": r"\btoken-\d",
    # of the emulator; not the checksum of a checkpoint, which is any number, nor digits of its mark
    "666": r"(?<![\w.])(?<!\"check\":)666\d{6}\b",
    "@example": r"\.\d+@example\.com",
    "55501": r"(?<![\w.])(?<!\"check\":)\d{3}55501\d{2}\b",
    # of tests/support/payloads.py
    **_plain("000112222", "ada@example", "ada-sample", "Invented Way", "51234.56"),
}
"""Patterns of private data in logs, errors and events; output and files may contain these."""
_BASIC: Final = re.compile(r"Basic ([\w+/]{8,}={0,2})")
_FULL: Final = frozenset({"log", "error", "event"})
_DEBUG: Final = ("income_client", "asyncio", "aiohttp.client")
"""The loggers whose records are looked at whatever their level is."""
_SETTINGS: Final = re.compile(r"netrc$|\.(?:conf|toml)$")
"""Files that hold credentials by design."""
_OF_RECORDS: Final = vars(logging.makeLogRecord({})).keys()
_PACKAGE: Final = re.compile(
    rf"{re.escape(str(Path(income_client.__file__).parent))}|<attrs generated \w+ income_client"
)
_GENERATED: Final = re.compile(r"<attrs generated \w+ income_client.*\.(\w+)")
_ENGINES: Final = str(Path(engines.__file__).parent)
_PUBLIC: Final = frozenset(
    name
    for module in (income_client, audit, downloads, events, exporting, receivers, records, walk)
    for name in module.__all__
)
_MOST_BYTES: Final = 64 * 1024
"""Larger files are not looked at: what leaks is in texts that people read."""


def private_in(text: str, *, borrowers: bool = True) -> str | None:
    """Return the first private thing in a text, with what is around it."""
    for part, expression in (_SECRETS | _QUIET if borrowers else _SECRETS).items():
        if part in text and (found := re.search(expression, text)):
            return _around(found)
    if "Basic " in text:
        return next((_around(one) for one in _BASIC.finditer(text) if _is_pair(one[1])), None)
    return None


def _around(found: re.Match[str]) -> str:
    return found.string[max(found.start() - 60, 0) : found.end() + 30]


def _is_pair(encoded: str) -> bool:
    try:
        return b":" in base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return False


def texts_of(error: BaseException) -> str:
    """Return what an error shows of itself: message, attributes, notes and pickle."""
    facts = {**vars(error), "body": None}  # which is kept on request, and never part of a text
    shown = [str(error), repr(error), repr(facts)]
    with suppress(TypeError, AttributeError, pickle.PicklingError):  # for one without a pickle
        shown.append(pickle.dumps(facts).decode("latin-1"))
    return "\n".join(shown)


def frames_of(error: BaseException) -> str:
    """Return the variables of the package's frames below a public call."""
    walked = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    ours = [one for one in walked if _PACKAGE.search(one.f_code.co_filename)]
    if not ours or not _is_public(ours[0].f_code):
        return ""  # what a private function is given is the concern of the public one
    return "\n".join(
        f"{frame.f_code.co_qualname}: {name}={_repr(value)}"
        for frame in ours
        for name, value in frame.f_locals.items()
    )


def _is_public(code: CodeType) -> bool:
    made = _GENERATED.match(code.co_filename)
    name = made[1] if made else code.co_qualname.partition(".")[0]
    is_engine = _ENGINES in code.co_filename and not name.startswith("_")
    return is_engine or name in _PUBLIC


def _repr(value: object) -> str:
    try:
        return repr(value)
    except AttributeError:  # an object that was not made to its end
        return ""


class Watch:
    """A plug-in that fails each test in which something private came out."""

    def __init__(self) -> None:
        self._leaks: dict[str, list[str]] = {}

    def look(self, where: str, text: str) -> None:
        """Remember what is private in a text."""
        found = private_in(text, borrowers=where in _FULL)
        if found is not None:
            self._leaks.setdefault(where, []).append(found)

    def taken(self) -> dict[str, list[str]]:
        """Return what has leaked until now, by where it was found, and forget it."""
        leaks, self._leaks = self._leaks, {}
        return leaks

    # What is looked at

    def _logged(self, record: logging.LogRecord) -> None:
        facts = {name: vars(record)[name] for name in vars(record).keys() - _OF_RECORDS}
        shown = [record.getMessage(), repr(facts)]
        if record.exc_info and record.exc_info[1]:
            shown += [
                *traceback.format_exception(record.exc_info[1]),
                frames_of(record.exc_info[1]),
            ]
        self.look("log", "\n".join(shown))

    def _left(self, error: BaseException) -> None:
        if isinstance(error, IncomeClientError):
            self.look("error", texts_of(error))
        for one in (error.__cause__, error.__context__):
            if one is not None:
                self.look("error", repr(one))

    def _made(self, error: BaseException) -> None:
        files = (frame.f_code.co_filename for frame, _ in traceback.walk_stack(None))
        maker = next(one for one in files if one not in {__file__, errors.__file__})
        if _PACKAGE.search(maker):  # others are a test's, or of code that a test passes
            self._left(error)

    def _raised(self, error: BaseException) -> None:
        if isinstance(error, IncomeClientError):
            self._left(error)
        self.look("error", frames_of(error))

    def look_at_command(self, arguments: Sequence[str], *texts: str) -> None:
        """Look at what a command wrote, unless it was asked for a token or for credentials."""
        if not {"--reveal", "emulate"}.intersection(arguments):
            self._output(*texts)

    def look_at_files(self, folder: Path) -> None:
        """Look at the small files of a folder."""
        for path in folder.rglob("*"):
            if _SETTINGS.search(path.name) or path.is_symlink() or not path.is_file():
                continue
            if path.stat().st_size <= _MOST_BYTES:
                with suppress(OSError):  # for one that nobody may read
                    self.look("file", f"{path.name}\n{path.read_bytes().decode('latin-1')}")

    # How it comes to it

    def pytest_configure(self, config: pytest.Config) -> None:
        """Begin."""
        config.addinivalue_line(
            "markers",
            "shows_private(*where, reason): logs, errors, events, output or files of this test"
            " hold what is private, by design",
        )
        self._patch = pytest.MonkeyPatch()
        self._after(IncomeClientError, "__init__", lambda _, made: self._made(made[0]))
        self._after(frames, "_strip", lambda _, left: self._left(left[0]))
        self._after(
            pytest.RaisesExc, "__exit__", lambda _, left: self._raised(left[2]) if left[2] else None
        )
        self._after(Instrumentation, "_emit", lambda _, told: self.look("event", repr(told[1])))
        self._after(pytest.CaptureFixture, "readouterr", lambda read, _: self._output(*read))
        self._after(subprocess.Popen, "communicate", lambda read, _: self._output(*read))
        self._patch.setattr(logging.Logger, "isEnabledFor", _always_enabled)
        self._patch.setattr(logging.Logger, "handle", self._handling(logging.Logger.handle))

    def pytest_unconfigure(self) -> None:
        """End."""
        self._patch.undo()

    def _after(self, owner: object, name: str, look: Callable[[Any, Any], object]) -> None:
        method = getattr(owner, name)

        def watched(*given: Any, **named: Any) -> Any:
            result = method(*given, **named)
            look(result, given)
            return result

        self._patch.setattr(owner, name, watched)

    def _output(self, *texts: str | bytes | None) -> None:
        for text in texts:
            self.look(
                "output", text.decode("latin-1") if isinstance(text, bytes) else str(text or "")
            )

    def _handling(
        self, handle: Callable[[logging.Logger, logging.LogRecord], None]
    ) -> Callable[[logging.Logger, logging.LogRecord], None]:
        def watched(logger: logging.Logger, record: logging.LogRecord) -> None:
            self._logged(record)
            if _is_enabled(logger, record.levelno):
                handle(logger, record)

        return watched

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        """Fail a test in which something came out, when all that it used has ended."""
        try:
            yield
        finally:
            for _, kind, text in item._report_sections:
                if kind != "log":  # whose records have been looked at
                    self.look("output", text)
            if (folder := getattr(item, "funcargs", {}).get("tmp_path")) is not None:
                self.look_at_files(folder)
            leaks = self.taken()
        allowed = {where for mark in item.iter_markers("shows_private") for where in mark.args}
        shown = {where: found for where, found in leaks.items() if where not in allowed}
        if shown:
            lines = [f"{where}: {one!r}" for where, found in shown.items() for one in found[:3]]
            pytest.fail("\n".join(["what is private came out", *lines]), pytrace=False)


_is_enabled: Final = logging.Logger.isEnabledFor


def _always_enabled(logger: logging.Logger, level: int) -> bool:
    return logger.name.startswith(_DEBUG) or _is_enabled(logger, level)


WATCH: Final = Watch()
"""The watch over this run."""


_TESTS: Final = str(Path(__file__).parents[1])


def held_by(error: BaseException) -> str:
    """Return all that a crash reporter could learn of an error: texts, attributes, chain, frames.

    The frames with which a test has made the call hold what it passed: they do not count, and
    every frame below them does, of the package or of a library.
    """
    shown = []
    for one in _chain(error):
        shown += [str(one), repr(one), repr(one.args), repr(vars(one))]
        for frame in _frames_below(one):
            shown += [f"{name}={_repr(value)}" for name, value in frame.f_locals.items()]
    try:
        shown.append(repr(pickle.dumps(error)))
    except TypeError:
        assert not type(error).__module__.startswith("income_client")
    return "\n".join(shown)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error, its causes and its contexts, those that are not printed too."""
    while error is not None:
        yield error
        if error.__context__ is not error.__cause__:
            yield from _chain(error.__context__)
        error = error.__cause__


def _frames_below(error: BaseException) -> Iterator[FrameType]:
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return dropwhile(lambda frame: frame.f_code.co_filename.startswith(_TESTS), frames)
