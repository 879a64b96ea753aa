"""Draws the pictures of the README anew: ``python -m tests.pictures.draw``."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.pictures.scenes import SCENES

FOLDER = Path(__file__).parent


def draw(names: Sequence[str], folder: Path) -> None:
    """Write a picture of each of these scenes into a folder."""
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            scene = SCENES[name](Path(scratch))
        (folder / f"{name}.svg").write_text(scene.picture(name), "utf-8")


if __name__ == "__main__":
    draw(sys.argv[1:] or list(SCENES), FOLDER)
