"""``income-client download``: which files it has, what it lists, and what it does not ask again."""

import asyncio
import re
import stat
from pathlib import Path
from typing import Final

import pytest

from income_client.emulator import Emulator, Fault
from tests.cli.downloading import FILES, Command, asked, documents_of, sha256_of
from tests.cli.entry import run
from tests.cli.polling import served, variables

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
        wrong = {**variables(service), "INCOME_CLIENT_SECRET": "invented"}
        ended = await asyncio.to_thread(run, *Command(service, tmp_path).arguments(), **wrong)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert len(ended.stderr.splitlines()) == 1
        assert "401" in ended.stderr
        assert len(service.requests) < 100


def test_help_has_an_example() -> None:
    """The help text fits a terminal and has something to type."""
    ended = run("download", "--help")
    assert "Example: income-client download " in ended.stdout
    assert "127.0.0.1" in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= 80


async def test_files_come_from_allowed_hosts_only(tmp_path: Path) -> None:
    """Without the switch nothing on this machine is asked, and with it plain http is."""
    async with Emulator(2) as service:
        for hosts in (), ("--allow-host", "files.example"), ("--allow-host", "127.0.0.1:1"):
            ended = await Command(service, tmp_path, hosts).run()
            assert (ended.returncode, ended.stdout) == (1, "")
        assert asked(service) == 0
        assert (await Command(service, tmp_path, ("--allow-host", "127.0.0.1:*")).run()).stdout


async def test_names_can_be_chosen(tmp_path: Path) -> None:
    """A template of one's own says where files are; the list knows that place."""
    async with Emulator(2) as service:
        command = Command(service, tmp_path)
        ended = await command.run("--names", "all/{document_id}.{ext}")
        assert ended.returncode == 0
        assert {entry["path"].rpartition("/")[0] for entry in command.listed} == {"all"}
        for line, entry in zip(ended.stdout.splitlines(), command.listed, strict=True):
            assert Path(line) == tmp_path / "all" / Path(entry["path"]).name


async def test_quiet_says_failures_only(tmp_path: Path) -> None:
    """With --quiet nothing is said of what went well."""
    async with Emulator(2) as service:
        command = Command(service, tmp_path)
        ended = await command.run("--quiet")
        assert (ended.returncode, ended.stderr) == (0, "")
        service.faults.add(Fault("status", status=404, times=None, path=FILES))
        failed = await Command(service, tmp_path / "other").run("--quiet", "--concurrency", "1")
        assert failed.returncode == 1
        assert len(failed.stderr.splitlines()) == len(documents_of(service))


async def test_the_same_application_is_asked_for_once(tmp_path: Path) -> None:
    """An id that is given twice counts once."""
    async with Emulator(2) as service:
        one = service.world.ids[0]
        command = Command(service, tmp_path)
        assert (await command.run(one, one)).returncode == 0
        assert sum(request.name == "get_documents" for request in service.requests) == 1


async def test_an_id_cannot_act_on_a_terminal(tmp_path: Path) -> None:
    """What is no id of an application is said without the characters that would do harm."""
    async with Emulator(1) as service:
        ended = await Command(service, tmp_path).run("app-\x1b[2J\x07\u202e")
        assert ended.returncode == 1
        assert ended.stderr.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "APPLICATION_ID"),
        (("app-1", "--concurrency", "0"), "--concurrency"),
        (("app-1", "--allow-host", "https://files.example/x"), "is an address"),
        (("app-1", "--allow-host", "*"), "every host"),
        (("app-1", "--names", "../{document_id}"), "--names"),
        (("app-1", "--names", "{ssn}"), "--names"),
    ],
)
def test_misuse_exits_with_2(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    """Arguments that cannot be meant are explained, with status 2, and nothing is asked."""
    environment = {
        "INCOME_BASE_URL": "http://127.0.0.1:9",
        "INCOME_USERNAME": "nobody",
        "INCOME_PASSWORD": "invented",
    }
    ended = run("download", "--to", str(tmp_path / "files"), *arguments, **environment)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_what_it_cannot_begin_with_is_one_line(tmp_path: Path) -> None:
    """Missing settings and a folder that is none are said in a line, with status 1."""
    without = run("download", "app-1", "--to", str(tmp_path / "files"))
    assert (without.returncode, without.stdout) == (1, "")
    assert without.stderr == "income-client: INCOME_BASE_URL is not set\n"
    assert not (tmp_path / "files").exists()
    file = tmp_path / "file"
    file.touch()
    async with Emulator(1) as service:
        ended = await Command(service, file).run()
        assert ended.returncode == 1
        assert ended.stderr == (
            f"income-client: cannot keep manifest.jsonl in {file}: file exists\n"
        )
        assert len(service.requests) == 0
