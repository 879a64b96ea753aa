"""A headless browser of the machine, asked over a pipe: it reads pages of this machine alone."""

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import frozen

_NAMES: Final = (
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "chrome-headless-shell",
)
EXECUTABLE: Final = next((found for name in _NAMES if (found := shutil.which(name))), None)
"""A browser that speaks the DevTools protocol; None if there is none."""

_OPTIONS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
    "about:blank",
)
_START: Final = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads from descriptor 3 and writes to 4, wherever the pipes are here."""
_END: Final = b"\0"
_SILENCE: Final = 40.0
"""Seconds after which nothing more is to come; below the limit of a test."""


@frozen(kw_only=True)
class Page:
    """A page in the browser, as a reader sees it."""

    text: str
    """Visible text of the page."""
    requests: tuple[str, ...]
    """Addresses that it asked for, its own included."""
    complaints: tuple[str, ...]
    """Lines of the console and of the log."""
    cut: tuple[str, ...]
    """Texts of elements whose content is wider than they are."""
    outside: tuple[str, ...]
    """Texts of elements that reach over the right edge."""
    background: str
    """Background colour of the page, as "rgb(255, 255, 255)"."""


class Browser:
    """A running browser.

    Args:
        to_browser: descriptor that it reads from.
        from_browser: descriptor that it writes to.
    """

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to = to_browser
        self._from = from_browser
        self._rest = b""
        self._number = 0
        self._events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def look(self, path: Path, *, width: int, scheme: str = "light") -> Page:
        """Open a page and return what is to be seen.

        Args:
            path: the file.
            width: of the window, in pixels.
            scheme: "light" or "dark".
        """
        self.dress(width=width, scheme=scheme)
        self.open(path.as_uri())
        return self.see()

    def open(self, url: str) -> None:
        """Open a page, and forget what was asked and said before."""
        self._events.clear()
        self._ask("Page.navigate", url=url)
        self._wait_for("Page.loadEventFired")

    def dress(self, *, width: int, scheme: str = "light") -> None:
        """Give the window a width in pixels, and the reader's choice of "light" or "dark"."""
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._ask("Emulation.setEmulatedMedia", media="", features=features)

    def see(self) -> Page:
        """Return what is to be seen of the page at hand."""
        seen = self.evaluate(_SEEN)
        return Page(
            text=seen["text"],
            requests=tuple(
                event["params"]["request"]["url"]
                for event in self._events
                if event["method"] == "Network.requestWillBeSent"
            ),
            complaints=tuple(filter(None, map(_complaint, self._events))),
            cut=tuple(seen["cut"]),
            outside=tuple(seen["outside"]),
            background=seen["background"],
        )

    def evaluate(self, expression: str) -> Any:
        """Return what an expression is in the page at hand; a promise is awaited."""
        answer = self._ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_until(self, condition: str) -> None:
        """Wait until an expression is true in the page at hand, looking once a frame."""
        look = f"() => ({condition}) ? resolve() : requestAnimationFrame(look)"
        self.evaluate(f"new Promise(resolve => {{ const look = {look}; look(); }})")

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        rest = json.dumps(message).encode() + _END
        while rest:
            rest = rest[os.write(self._to, rest) :]
        while (answer := self._next()).get("id") != self._number:
            pass
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result

    def _wait_for(self, event: str) -> None:
        while not any(each["method"] == event for each in self._events):
            self._next()

    def _next(self) -> dict[str, Any]:
        while _END not in self._rest:
            is_there, _, _ = select.select([self._from], [], [], _SILENCE)
            assert is_there, f"the browser has said nothing for {_SILENCE:g} s"
            piece = os.read(self._from, 1 << 20)
            assert piece, "the browser has ended"
            self._rest += piece
        text, _, self._rest = self._rest.partition(_END)
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._events.append(message)
        return message


_SEEN: Final = """(() => {
  const all = [...document.body.querySelectorAll("*")].filter(e => e.getClientRects().length);
  const own = e => (e.innerText || e.className || e.tagName).slice(0, 60);
  return {
    text: document.body.innerText,
    background: getComputedStyle(document.body).backgroundColor,
    cut: all.filter(e => e.innerText && e.scrollWidth > e.clientWidth + 1
      && getComputedStyle(e).display !== "inline").map(own),
    outside: all.filter(e => e.getBoundingClientRect().right > innerWidth + 0.5).map(own),
  };
})()"""


def _complaint(event: dict[str, Any]) -> str | None:
    params = event["params"]
    match event["method"]:
        case "Log.entryAdded":
            return str(params["entry"]["text"])
        case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
            return json.dumps(params)
        case _:
            return None


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Run the machine's browser.

    Args:
        profile: an empty folder for what it keeps.
    """
    assert EXECUTABLE is not None
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", _START, str(theirs_in), str(theirs_out), EXECUTABLE,
         f"--user-data-dir={profile}", *_OPTIONS],
        pass_fds=(theirs_in, theirs_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(ours_out, ours_in)
    finally:
        # It ends by itself once its pipe is closed.
        os.close(ours_out)
        os.close(ours_in)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
