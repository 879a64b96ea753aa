"""The page of an emulator, which browsers show at its address: three files of this package.

It is the same for everybody and holds nothing: what it shows comes from the calls of `control`.
"""

from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from .access import SECURITY_HEADERS
from .exchange import HttpReply, HttpRequest, error_reply

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
_TYPES: Final = {
    "page.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
}


def page_reply(request: HttpRequest) -> HttpReply:
    """Return the answer to a request to the page or to a file of it."""
    if request.method != "GET":
        return error_reply(405, "method_not_allowed", "the page is read with GET", Allow="GET")
    name = request.path.removeprefix("/") or "page.html"
    headers = {
        **SECURITY_HEADERS,
        "Content-Security-Policy": _POLICY,
        "Content-Type": _TYPES[name],
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    return HttpReply(status=HTTPStatus.OK, headers=headers, body=_content_of(name))


@cache
def _content_of(name: str) -> bytes:
    return files(__package__).joinpath(name).read_bytes()
