"""The part of an export is its user's alone, and what was put at its place is left as it is."""

import os
from datetime import datetime
from pathlib import Path

import pytest

from income_client import ConfigurationError, to_json
from income_client.cli.exports.end import Outcome, publish_lines, was_published
from income_client.cli.exports.part import Gain, Part
from income_client.cli.exports.request import Request, Span
from income_client.emulator import Emulator
from tests.cli.exporting import Command
from tests.support.export_records import known_record

LINE = to_json(known_record()) + b"\n"
SPAN = Span(None, datetime(2026, 6, 30))  # noqa: DTZ001 - the service's time
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def request_to(service: str) -> Request:
    """Return what asks a service for everything."""
    return Request(
        service=service, updated_after=None, updated_before=None, documents=True, pages=False
    )


def published(folder: Path, service: str = "emulated") -> Path:
    """Put a line at its place, and crash before the part is removed; return the place."""
    request = request_to(service)
    with Part(folder / "all.part") as part:
        part.begin(request.text, span_ends=SPAN.before.isoformat())
        part.keep(Gain(lines=[LINE[:-1]], application_ids=["app-1"], missing=[], checkpoint=None))
        outcome = Outcome(request=request, span=SPAN, missing=(), saturated=())
        publish_lines(part, folder / "all", outcome)
    return folder / "all"


def begun(folder: Path) -> Path:
    """Keep a line in a part, and return its folder."""
    with Part(folder / "all.part") as part:
        part.begin(request_to("emulated").text)
        part.keep(Gain(lines=[LINE[:-1]], application_ids=["app-1"], missing=[], checkpoint=None))
    return folder / "all.part"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o701, 0o1777])
async def test_a_folder_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    """They may have put files there that they keep open; nothing is asked, nothing made."""
    async with Emulator(3) as service:
        command = Command(service, tmp_path / "all")
        command.part.mkdir()
        command.part.chmod(mode)
        refused = await command.run()
        assert service.requests == []
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"other users may have changed what is in {command.part}" in refused.stderr
    assert list(command.part.iterdir()) == []


@as_root
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    """However private it is, its owner can open it again."""
    (tmp_path / "all.part").mkdir(0o700)
    os.chown(tmp_path / "all.part", 65534, 65534)
    with pytest.raises(ConfigurationError, match="belongs to another user"):
        Part(tmp_path / "all.part")


@as_root
@pytest.mark.parametrize("name", ["records.jsonl", "notes.db", "notes.db-journal"])
def test_a_file_of_another_user_is_refused(tmp_path: Path, name: str) -> None:
    """It would become the export, or tell what this is."""
    folder = begun(tmp_path)
    (folder / name).touch()
    os.chown(folder / name, 65534, 65534)
    with pytest.raises(ConfigurationError, match="no file of this user's"):
        Part(folder)


def test_files_that_were_open_to_others_are_no_longer(tmp_path: Path) -> None:
    """What is put at the place has the mode of the lines, which is for their owner alone."""
    folder = begun(tmp_path)
    for one in folder.iterdir():
        one.chmod(0o644)
    with Part(folder):
        assert {one.stat().st_mode & 0o777 for one in folder.iterdir()} == {0o600}


def test_notes_with_a_second_name_are_refused(tmp_path: Path) -> None:
    """Whoever has the other may write there."""
    folder = begun(tmp_path)
    (tmp_path / "other").hardlink_to(folder / "notes.db")
    with pytest.raises(ConfigurationError, match="has a second name"):
        Part(folder)


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_no_umask_changes_who_may_read(tmp_path: Path, umask: int) -> None:
    """Neither one that takes nothing away nor one that takes all."""
    before = os.umask(umask)
    try:
        folder = begun(tmp_path)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {one.stat().st_mode & 0o777 for one in folder.iterdir()} == {0o600}


async def test_what_stands_at_its_place_is_not_cut(tmp_path: Path) -> None:
    """After a crash behind the end the file is its user's, whatever was added and allowed."""
    async with Emulator(3) as service:
        target = published(tmp_path, service.url)
        target.chmod(0o640)
        with target.open("ab") as file:
            file.write(b"mine\n")
        again = await Command(service, target).run()
    assert again.returncode == 0
    assert again.stderr == "income-client: it was there already, with 1 application\n"
    assert target.read_bytes() == LINE + b"mine\n"
    assert target.stat().st_mode & 0o777 == 0o640
    assert not (tmp_path / "all.part").exists()


async def test_what_was_moved_away_does_not_grow(tmp_path: Path) -> None:
    """The export goes on with a copy of its lines, and the file elsewhere stays as it is."""
    async with Emulator(3) as service:
        moved = published(tmp_path, service.url).rename(tmp_path / "moved")
        (tmp_path / "all.manifest.json").unlink()
        with moved.open("ab") as file:
            file.write(b"mine\n")
        command = Command(service, tmp_path / "all")
        again = await command.run()
        assert (again.returncode, len(command.ids)) == (0, 4)
    assert "going on with 1 application of an earlier run" in again.stderr
    assert moved.read_bytes() == LINE + b"mine\n"
    assert command.target.stat().st_nlink == 1


async def test_what_was_moved_and_removed_is_read_anew(tmp_path: Path) -> None:
    """A crash within the removal leaves notes without lines, which is no damage."""
    async with Emulator(3) as service:
        published(tmp_path, service.url).rename(tmp_path / "moved")
        (tmp_path / "all.manifest.json").unlink()
        (tmp_path / "all.part" / "records.jsonl").unlink()
        command = Command(service, tmp_path / "all")
        assert (await command.run()).returncode == 0
        assert sorted(command.ids) == sorted(service.world.ids)


def test_lines_with_a_second_name_are_copied(tmp_path: Path) -> None:
    """A copy that a program made of links, such as one of a whole disk, does not grow."""
    folder = begun(tmp_path)
    (tmp_path / "other").hardlink_to(folder / "records.jsonl")
    (folder / "records.jsonl.copy").write_bytes(b"half a copy")
    with Part(folder) as part:
        part.keep(Gain(lines=[b"{}"], application_ids=["app-2"], missing=[], checkpoint=None))
    assert (tmp_path / "other").read_bytes() == LINE
    assert (folder / "records.jsonl").read_bytes() == LINE + b"{}\n"
    assert not (folder / "records.jsonl.copy").exists()


def test_it_is_known_again_when_devices_have_new_numbers(tmp_path: Path) -> None:
    """Some do after a restart; the lines and the file are the same all the same."""
    target = published(tmp_path)
    with Part(tmp_path / "all.part") as part:
        part.note_published(f"0:{target.stat().st_ino}")
        assert was_published(part, target)
        part.lines.unlink()
        assert not was_published(part, target)
