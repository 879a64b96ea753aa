"""``python .site [FOLDER]`` builds the site; anything that Sphinx warns of ends the build.

Needs the extra ``site``. What is built is in ``FOLDER/html``, by default in ``.site/build/html``.
"""

import gc
import shutil
import sys
from pathlib import Path

from pages import stage, write_texts
from sphinx.cmd.build import main

HERE = Path(__file__).parent


def build(folder: Path) -> int:
    """Build all pages below a folder, and return the exit status."""
    gc.disable()  # of the trees of pages nothing is garbage: looking through them is a third of it
    shutil.rmtree(folder, ignore_errors=True)
    source, trees, html, texts = (folder / name for name in ("source", "trees", "html", "texts"))
    stage(source)
    options = ["-q", "-W", "--keep-going", "-c", str(HERE), "-d", str(trees), str(source)]
    reference = [str(page) for page in (source / "reference").iterdir()]
    status = main(["-b", "html", *options, str(html)])
    status = status or main(["-b", "markdown", *options, str(texts), *reference])
    if status:
        return status
    write_texts(texts, html)
    return 0


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]) if sys.argv[1:] else HERE / "build"))
