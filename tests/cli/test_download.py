"""``income-client download``: which files it has, what it lists, and what it does not ask again."""

import re
import stat
from pathlib import Path
from typing import Final

from income_client.emulator import Emulator, Fault
from tests.cli.downloading import Command, asked, documents_of, sha256_of
from tests.cli.polling import served

_SUMMARY: Final = re.compile(
    r"income-client: (?P<counts>.+ failed)(?P<unread>, .+ not read)?, "
    r"(?P<size>.+) in [0-9,]+\.[0-9] s"
)


def counts_of(errors: str) -> str:
    """Return what the summary counts."""
    summary = _SUMMARY.fullmatch(errors.splitlines()[-1])
    assert summary, errors
    return summary["counts"]


async def test_files_come_whole_and_are_listed(tmp_path: Path) -> None:
    """Every file is there, private, printed and listed with what it is."""
    async with Emulator(12) as service:
        command = Command(service, tmp_path / "files")
        ended = await command.run()
        documents = documents_of(service)
        count = len(documents)
        assert ended.returncode == 0
        assert counts_of(ended.stderr) == f"{count} files, {count} new, 0 there already, 0 failed"
        paths = [Path(line) for line in ended.stdout.splitlines()]
        assert paths == [command.folder / entry["path"] for entry in command.listed]
        assert {one["document_id"]: one["application_id"] for one in command.listed} == documents
        for path, entry in zip(paths, command.listed, strict=True):
            content = path.read_bytes()
            assert content == service.content_of(entry["document_id"])
            assert (entry["size"], entry["sha256"]) == (len(content), sha256_of(content))
            assert (stat.S_IMODE(path.stat().st_mode), entry["file"]) == (0o600, 0)
            assert entry["path"].startswith(f"{entry['application_id']}/{entry['document_type']}/")
            assert entry["content_type"] in ("application/pdf", "image/png")
            assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["time"])
        assert command.parts == []


async def test_the_list_names_nobody(tmp_path: Path) -> None:
    """Neither an address nor a borrower's or lender's name stands in the manifest or is shown."""
    async with Emulator(3) as service:
        command = Command(service, tmp_path)
        ended = await command.run()
        text = (tmp_path / "manifest.jsonl").read_text("utf-8") + ended.stdout + ended.stderr
        for one in service.world.ids:
            application = served(service, one)
            assert application["application_reference_id"] not in text
            for applicant in application["applicants"].values():
                assert applicant["last_name"] not in text
        assert "http" not in text
        assert "X-Amz" not in text


async def test_only_the_types_that_are_wanted(tmp_path: Path) -> None:
    """A type takes the documents of this type, several take those of each."""
    async with Emulator(30) as service:
        types = sorted(
            {
                kind
                for one in service.world.ids
                for kind in served(service, one, "/documents")["documents"]
            }
        )
        assert "paystub" in types
        command = Command(service, tmp_path)
        await command.run("--type", "paystub")
        listed = {entry["document_id"] for entry in command.listed}
        assert listed == documents_of(service, "paystub").keys()
        await command.run(*(f"--type={kind}" for kind in types))
        assert {entry["document_id"] for entry in command.listed} == documents_of(service).keys()


async def test_a_second_run_asks_for_no_file(tmp_path: Path) -> None:
    """What is listed and as it was costs no request, and is neither printed nor listed again."""
    async with Emulator(9) as service:
        command = Command(service, tmp_path)
        await command.run()
        listed, before = command.listed, asked(service)
        again = await command.run()
        count = len(listed)
        assert (again.returncode, again.stdout) == (0, "")
        assert counts_of(again.stderr) == f"{count} files, 0 new, {count} there already, 0 failed"
        assert (command.listed, asked(service)) == (listed, before)


async def test_what_is_gone_comes_again(tmp_path: Path) -> None:
    """A listed file that is no longer there is had again, and printed and listed anew."""
    async with Emulator(3) as service:
        command = Command(service, tmp_path)
        await command.run()
        one = command.listed[1]
        (tmp_path / one["path"]).unlink()
        again = await command.run()
        assert (again.returncode, again.stdout) == (0, f"{tmp_path / one['path']}\n")
        assert command.listed[-1]["sha256"] == one["sha256"]
        assert command.is_whole(one["document_id"])


async def test_what_is_not_listed_is_found(tmp_path: Path) -> None:
    """Without its list a folder is read again: what is there is compared, listed and printed."""
    async with Emulator(3) as service:
        command = Command(service, tmp_path)
        first = await command.run()
        listed = {entry["document_id"]: entry["sha256"] for entry in command.listed}
        (tmp_path / "manifest.jsonl").unlink()
        again = await command.run()
        count = len(listed)
        assert again.returncode == 0
        assert counts_of(again.stderr) == f"{count} files, 0 new, {count} there already, 0 failed"
        assert sorted(again.stdout.splitlines()) == sorted(first.stdout.splitlines())
        assert {entry["document_id"]: entry["sha256"] for entry in command.listed} == listed


async def test_another_file_is_replaced_only_when_told(tmp_path: Path) -> None:
    """A file that differs stays and is said; with --overwrite it gives way, and others stay."""
    async with Emulator(2) as service:
        command = Command(service, tmp_path)
        await command.run()
        one, *others = command.listed
        path = tmp_path / one["path"]
        path.write_bytes(b"mine")
        refused = await command.run()
        assert (refused.returncode, refused.stdout, path.read_bytes()) == (1, "", b"mine")
        assert one["document_id"] in refused.stderr.splitlines()[0]
        replaced = await command.run("--overwrite")
        assert (replaced.returncode, replaced.stdout) == (0, f"{path}\n")
        count = len(others)
        assert f"1 new, {count} there already, 0 failed" in counts_of(replaced.stderr)
        assert command.is_whole(one["document_id"])
        assert len(command.listed) == count + 2


async def test_a_replaced_document_is_seen_with_overwrite(tmp_path: Path) -> None:
    """What the service has replaced since is had again only by who asks for what is there too."""
    async with Emulator(2) as service:
        command = Command(service, tmp_path)
        await command.run()
        one = command.listed[0]["document_id"]
        service.replace_file(one)
        assert (await command.run()).stdout == ""
        assert not command.is_whole(one)
        assert (await command.run("--overwrite")).returncode == 0
        assert command.is_whole(one)


async def test_failures_leave_the_others_alone(tmp_path: Path) -> None:
    """An application or a file that cannot be had is said with its id; all others come."""
    async with Emulator(6) as service:
        bad, *good = service.world.ids
        lost, *rest = (one for one, owner in documents_of(service).items() if owner in good)
        service.faults.add(Fault("status", status=404, times=None, path=f"*/{bad}/documents"))
        service.faults.add(Fault("status", status=404, times=None, path=f"*/{lost}*"))
        command = Command(service, tmp_path)
        ended = await command.run()
        assert ended.returncode == 1
        said = ended.stderr.splitlines()
        assert len(said) == 3
        assert any(bad in line and "404" in line for line in said)
        assert any(lost in line and documents_of(service)[lost] in line for line in said)
        assert counts_of(ended.stderr).endswith(" 0 there already, 1 failed")
        assert "1 failed, 1 application not read, " in said[-1]
        assert {entry["document_id"] for entry in command.listed} == set(rest)


async def test_wrong_credentials_end_it(tmp_path: Path) -> None:
    """What fails for every application is said once, and not tried with each."""
    async with Emulator(200) as service:
        ended = await Command(service, tmp_path).run(INCOME_CLIENT_SECRET="invented")
        assert (ended.returncode, ended.stdout) == (4, "")
        assert len(ended.stderr.splitlines()) == 1
        assert "401" in ended.stderr
        assert len(service.requests) < 100
