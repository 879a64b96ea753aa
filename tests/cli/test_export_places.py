"""Where an export is to be, and with what it is made, looked at before anything is asked."""

from pathlib import Path

import pytest

from income_client.emulator import Emulator
from tests.cli.exporting import Command

_BEHIND: dict[str, int] = {"jsonl": len(".manifest.json"), "parquet": len(".part")}


@pytest.mark.parametrize("format_", sorted(_BEHIND))
async def test_a_name_that_is_too_long_is_said_at_once(tmp_path: Path, format_: str) -> None:
    """The longest that leaves room for the names beside it is taken, and one more is not."""
    longest = "a" * (255 - _BEHIND[format_])
    async with Emulator(3) as service:
        refused = await Command(service, tmp_path / f"{longest}b").run("--format", format_)
        assert (refused.returncode, service.requests) == (1, [])
        assert refused.stderr.endswith(": file name too long\n")
        assert Command(service, tmp_path / "all").left == set()
        assert (await Command(service, tmp_path / longest).run("--format", format_)).returncode == 0


async def test_a_folder_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    """Nobody is asked, and it is not made."""
    async with Emulator(3) as service:
        refused = await Command(service, tmp_path / "none" / "all").run()
        assert (refused.returncode, service.requests) == (1, [])
    assert refused.stderr.endswith(": no such file or directory\n")
    assert Command(service, tmp_path / "all").left == set()


@pytest.mark.parametrize("error", ["ImportError('libarrow')", "AttributeError('_ARRAY_API')"])
async def test_a_broken_library_is_one_line(tmp_path: Path, error: str) -> None:
    """One that is there and cannot be loaded; nothing is asked, nothing made."""
    broken = tmp_path / "broken"
    (broken / "pyarrow").mkdir(parents=True)
    (broken / "pyarrow" / "__init__.py").write_text(f"raise {error}\n", "utf-8")
    async with Emulator(3) as service:
        command = Command(service, tmp_path / "tables")
        refused = await command.run("--format", "parquet", PYTHONPATH=str(broken))
        assert service.requests == []
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "income-client: pyarrow is installed and cannot be used "
        f"({error.partition('(')[0]}): install it anew\n"
    )


async def test_tables_are_summed_up_in_rows(tmp_path: Path) -> None:
    """Nobody who wants tables has anything of the lines that they were made of."""
    async with Emulator(5) as service:
        ended = await Command(service, tmp_path / "tables").run("--format", "parquet")
    assert ended.returncode == 0
    assert " rows in 5 tables in " in ended.stderr
    assert "JSON" not in ended.stderr
