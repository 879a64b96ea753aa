"""Parts as tests want them, and a process that writes one until it is killed."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from income_client.disk.folders import Folder, open_folder
from income_client.disk.partial_files import create

MARK: Final = '"0123abcd"'

_WRITE: Final = "from tests.support.parts import write; write()"


@contextmanager
def opened(path: Path) -> Iterator[Folder]:
    """Lend a folder."""
    with open_folder(path) as folder:
        yield folder


def left(path: Path, content: bytes, *, target: str = "a", mark: str | None = MARK) -> Path:
    """Leave a part behind as a killed process does, and return where it is."""
    before = set(path.iterdir())
    with opened(path) as folder:
        part = create(folder, target, mark)
        part.content.write(content)
        part.content.close()
    (made,) = set(path.iterdir()) - before
    return made


def contents(path: Path) -> dict[str, bytes]:
    """Return the bytes of all files in a folder, by name; the names of parts are cut short."""
    return {
        ".part" if one.suffix == ".part" else one.name: one.read_bytes() for one in path.iterdir()
    }


def clear(path: Path) -> None:
    """Remove all files of a folder."""
    for one in path.iterdir():
        one.unlink()


@contextmanager
def writing(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run a process that writes parts of a target without end, and kill it in the end."""
    with subprocess.Popen(
        [sys.executable, "-c", _WRITE, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "writing\n"
            yield process
        finally:
            process.kill()
            process.wait()


def write() -> None:
    """Write a part of a target and wait to be killed; what is in it can be told by its length."""
    with opened(Path(sys.argv[1])) as folder:
        part = create(folder, "a", MARK)
        for number in range(1_000_000):
            part.content.write(number.to_bytes(8))
            if number == 1000:
                print("writing", flush=True)  # noqa: T201 - it is waited for
        signal.pause()


def written(size: int) -> bytes:
    """Return what `write` has written when it has written so many bytes."""
    numbers = b"".join(number.to_bytes(8) for number in range(size // 8 + 1))
    return numbers[:size]
