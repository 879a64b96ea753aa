"""Scripts of a storage that cuts, changes its file and lies, in every way that can be told.

A reply that contradicts nothing, such as a short body with a length to match, is no lie that
anyone could find out, and is not played.
"""

import gzip
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from attrs import evolve, frozen
from hypothesis import strategies as st

from tests.support.server import Reply, Request
from tests.support.storage import File, Storage

PATH: Final = "/slip"
SIZES: Final = (5000, 700, 150_000, 5000, 2, 0)


@frozen
class Script:
    """What a storage does, reply by reply; then it is honest."""

    versions: tuple[File, ...]
    """What the file is, and what it becomes."""
    acts: Sequence[tuple[str, float]]
    """What is done to each reply, by name, with a figure."""
    max_attempts: int

    @property
    def contents(self) -> frozenset[bytes]:
        """What may be at the place in the end."""
        return frozenset(version.content for version in self.versions)

    def play(self, storage: Storage) -> None:
        """Have a storage do it, each change of the file with the next version."""
        storage.files[PATH], *later = self.versions
        versions = iter(later)

        def act(name: str, figure: float, request: Request, reply: Reply) -> Reply:
            match name:
                case "change":
                    storage.files[PATH] = next(versions, storage.files[PATH])
                    return storage.honest(request)
                case "expire":
                    storage.expired.add(request.target.partition("X-Signature=")[2])
                    return storage.honest(request)
                case "ignore If-Range":
                    return _part_of(next(versions, storage.files[PATH]), request, reply)
                case _:
                    return ACTS[name](reply, figure)

        storage.tricks.extend(partial(act, *one) for one in self.acts)


def script(*names: str) -> Script:
    """Make a script of acts, each in the middle of a reply, on two versions of one length."""
    acts = tuple((name, 0.5) for name in names)
    return Script(_versions(('"%d"', [5000, 5000])), acts, 3)


def scripts() -> st.SearchStrategy[Script]:
    """Make scripts up; most cut the first body, since all else matters only then."""
    etags = st.sampled_from(['"%d"', '"%d"', '"%d"', '"%d"', 'W/"%d"', None])
    sizes = st.lists(st.sampled_from(SIZES), min_size=1, max_size=3)
    cuts = st.tuples(st.just("cut body"), st.floats(0.1, 0.9))
    names = [*ACTS, *("change", "expire", "ignore If-Range", "400") * 3]
    others = st.tuples(st.sampled_from(names), st.floats(0, 1))
    return st.builds(
        Script,
        st.tuples(etags, sizes).map(_versions),
        st.lists(st.one_of(cuts, cuts, others), min_size=1, max_size=6),
        st.sampled_from([1, 3, 8]),
    )


def _versions(drawn: tuple[str | None, list[int]]) -> tuple[File, ...]:
    etag, sizes = drawn
    return tuple(
        File(_content(number, size), etag % number if etag else None)
        for number, size in enumerate(sizes)
    )


def _content(number: int, size: int) -> bytes:
    """Return bytes that tell of which version they are, and of which place in it."""
    cycle = bytes((place + 50 * number) % 251 for place in range(251))
    return (cycle * (size // 251 + 1))[:size]


def _part_of(file: File, request: Request, reply: Reply) -> Reply:
    """Go on with another version, as a storage does that does not know If-Range."""
    wanted = request.headers.get("range")
    if wanted is None or "if-range" not in request.headers:
        return reply
    first = int(wanted.removeprefix("bytes=").partition("-")[0])
    part, total = file.content[first:], len(file.content)
    place = f"bytes {first}-{total - 1}/{total}"
    return Reply(status=206, headers={"ETag": file.etag, "Content-Range": place}, body=part)


def _changed(reply: Reply, **fields: str | None) -> Reply:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return evolve(reply, headers={**reply.headers, **named})


def _cut(reply: Reply, figure: float) -> Reply:
    return evolve(reply, cut=int(figure * len(bytes(reply))), reset=int(figure * 1000) % 2 == 1)


def _cut_body(reply: Reply, figure: float) -> Reply:
    return evolve(reply, cut=reply.body_at + int(figure * len(reply.body)))


def chunked(reply: Reply, size: int = 64) -> Reply:
    """Send the body in chunks, its length untold."""
    pieces = [reply.body[at : at + size] for at in range(0, len(reply.body), size)]
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    unmeasured = _changed(reply, Content_Length=None, Transfer_Encoding="chunked")
    return evolve(unmeasured, body=body)


def _compressed(reply: Reply, figure: float) -> Reply:
    told = evolve(_changed(reply, Content_Encoding="gzip"), body=gzip.compress(reply.body))
    return told if figure < 0.5 else _cut_body(told, 0.5)


def _unmeasured(reply: Reply, figure: float) -> Reply:
    body = reply.body[: int(figure * len(reply.body))]
    told = _changed(reply, Content_Length=None, Connection="close")
    return evolve(told, body=body)


def _too_long(reply: Reply, figure: float) -> Reply:
    told = _changed(reply, Content_Length=str(len(reply.body) + 1 + int(figure * 9)))
    return evolve(told, closed=True)


def _refused(status: int) -> Callable[[Reply, float], Reply]:
    return lambda reply, figure: Reply(status=status)


ACTS: Final[dict[str, Callable[[Reply, float], Reply]]] = {
    "nothing": lambda reply, figure: reply,
    "cut": _cut,
    "cut body": _cut_body,
    "chunk": lambda reply, figure: chunked(reply),
    "chunk and cut": lambda reply, figure: _cut(chunked(reply), figure),
    "compress": _compressed,
    "do not measure": _unmeasured,
    "promise more": _too_long,
    "call it a part": lambda reply, figure: evolve(reply, status=206),
    "call it all": lambda reply, figure: evolve(reply, status=200),
    **{str(status): _refused(status) for status in (500, 503, 416, 404, 304, 204, 400)},
}
"""What may be done to an honest reply, by name; the figure, from 0 to 1, says where or how."""
