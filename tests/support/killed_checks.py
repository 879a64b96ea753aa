"""What a folder may hold after a process that downloads was killed; kills nobody."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from tests.support.downloads import files_below, mode_of
from tests.support.files import Paper
from tests.support.killed_host import FileHost


def whole_files(folder: Path, papers: Iterable[Paper], told: Iterable[str]) -> AbstractSet[str]:
    """Check that what is in a folder is whole or hidden, and private; return what is whole.

    Args:
        folder: where it is.
        papers: what there should be in the end.
        told: what was said of files by the processes that were killed.
    """
    expected = {paper.place: paper for paper in papers}
    there = files_below(folder)
    whole = there.keys() - set(parts_below(folder))
    assert [name for name in whole if there[name] != expected[name].content] == []
    assert {mode_of(folder / name) for name in there} <= {0o600}
    hashes = {expected[name].document_id: hashlib.sha256(there[name]).hexdigest() for name in whole}
    for word in told:
        _, document_id, sha256 = word.split()
        assert hashes[document_id] == sha256
    return hashes.keys()


def parts_below(folder: Path) -> list[str]:
    """Return the names of files on their way, or left behind."""
    return [str(path.relative_to(folder)) for path in folder.rglob(".*.part")]


def unfinished_parts_below(folder: Path) -> list[str]:
    """Return those of them that are no second name of a file at its place."""
    return [name for name in parts_below(folder) if (folder / name).stat().st_nlink == 1]


def check_costs(host: FileHost, was_whole: Sequence[AbstractSet[str]], *, concurrency: int) -> None:
    """Check that a life fetched no file twice, none that was there, and few that it did not end.

    One byte does not count: by it, files that are there are compared.

    Args:
        host: what gave them.
        was_whole: which were whole at the beginning of each life, and at the end of the last.
        concurrency: how many files were on their way at a time.
    """
    given: Counter[tuple[int, str]] = Counter()
    for one in host.given:
        if one.until > 1:
            assert one.document_id not in was_whole[one.life]
            given[one.life, one.document_id] += one.sent
    assert all(count <= host.size_of(document_id) for (_, document_id), count in given.items())
    in_vain = Counter(life for life, name in given if name not in was_whole[life + 1])
    assert all(count <= concurrency for count in in_vain.values())
