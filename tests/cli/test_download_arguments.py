"""``income-client download``: what its arguments mean, and which cannot be meant."""

from pathlib import Path

import pytest

from income_client.emulator import Emulator, Fault
from tests.cli.downloading import FILES, Command, asked, documents_of
from tests.cli.entry import run


def test_help_has_an_example() -> None:
    """The help text fits a terminal and has something to type."""
    ended = run("download", "--help")
    assert "Example: income-client download " in ended.stdout
    assert "127.0.0.1" in ended.stdout
    said = " ".join(ended.stdout.replace("│", " ").split())
    assert "Parts are hidden files beside the places of the whole ones." in said
    assert "Files that the manifest lists stay where they are, and are not asked for." in said
    assert max(map(len, ended.stdout.splitlines())) <= 80


async def test_files_come_from_allowed_hosts_only(tmp_path: Path) -> None:
    """Without the switch nothing on this machine is asked; one refusal of a host is enough."""
    async with Emulator(2) as service:
        for hosts in (), ("--allow-host", "files.example"), ("--allow-host", "127.0.0.1:1"):
            ended = await Command(service, tmp_path, hosts).run()
            assert (ended.returncode, ended.stdout) == (1, "")
            assert ended.stderr.count("--allow-host") == 1
            first, more, hint, summary = ended.stderr.splitlines()
            assert "--allow-host" in hint
            assert first.startswith("income-client: app-")
            files = len(documents_of(service))
            assert f"the same of {files - 1} more files: 127.0.0.1" in more
            assert f"{files} failed" in summary
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


async def test_other_names_move_nothing(tmp_path: Path) -> None:
    """A listed file stays where it is under other names, and only one that is gone goes there."""
    async with Emulator(3) as service:
        command = Command(service, tmp_path)
        await command.run()
        (gone, *kept), before = command.listed, asked(service)
        again = await command.run("--names", "all/{document_id}.{ext}")
        assert (again.returncode, again.stdout, asked(service)) == (0, "", before)
        assert not (tmp_path / "all").exists()
        (tmp_path / gone["path"]).unlink()
        await command.run("--names", "all/{document_id}.{ext}")
        moved = command.listed[-1]["path"]
        assert Path(moved).parent == Path("all")
        assert Path(moved).stem == gone["document_id"]
        assert all((tmp_path / one["path"]).exists() for one in kept)


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
        (("app-1", "--names", "{ssn}.{ext}"), "--names"),
        (("app-1", "--names", "{ssn}"), "--names"),
        (("app-1", "--names", "{file_reference_id}", "--overwrite"), "with .{ext}"),
        (("app-1", "--names", "{document_id}.jsonl"), "with .{ext}"),
        (("app-1", "--names", "{document_id}.{{ext}}"), "with .{ext}"),
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
    """Missing settings are said in a line, with status 2, and a folder that is none with 1."""
    without = run("download", "app-1", "--to", str(tmp_path / "files"))
    assert (without.returncode, without.stdout) == (2, "")
    assert without.stderr.startswith("income-client: set INCOME_BASE_URL, or base_url in ")
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


async def test_a_type_that_no_document_has_is_told(tmp_path: Path) -> None:
    """A typing error would be a success for ever."""
    async with Emulator(2) as service:
        ended = await Command(service, tmp_path).run("--type", "payslip", "--type", "paystub")
        assert ended.returncode == 0
        assert "no document of type payslip; there are " in ended.stderr
        assert "paystub" in ended.stderr.partition("there are")[2]


def test_a_folder_is_no_address(tmp_path: Path) -> None:
    """Files would lie here while they are thought to be in a store."""
    ended = run("download", "app-1", "--to", "s3://bucket/x")
    assert ended.returncode == 2
    assert "this is an address" in " ".join(ended.stderr.replace("│", " ").split())
