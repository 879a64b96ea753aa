"""The manifest beside an export: never put in the place of a file that is somebody else's."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from income_client.testing import IncomeService
from tests.support.cli import Cli, Ran

Export = Callable[..., Ran]

FOREIGN: Final = '{"whose": "another program"}\n'


@pytest.fixture
def service() -> Iterator[IncomeService]:
    """A service whose first application cannot be read at first."""
    with IncomeService(30, faults="get_application: 404") as made:
        yield made


@pytest.fixture
def export(service: IncomeService, tmp_path: Path, cli: Cli) -> Export:
    """The command, to a file named ``all``."""

    def run(*arguments: str) -> Ran:
        return cli.at(service)("export", "--to", str(tmp_path / "all"), *arguments)

    return run


def test_a_resumed_export_replaces_no_foreign_manifest(export: Export, tmp_path: Path) -> None:
    """A file that came between two runs stays, as it would have stopped the first one."""
    manifest = tmp_path / "all.manifest.json"
    assert export().status == 1
    assert (tmp_path / "all.part").is_dir()
    manifest.write_text(FOREIGN, "utf-8")
    ended = export()
    assert (ended.status, ended.stdout) == (1, "")
    assert f"{manifest} exists already, and is not overwritten" in ended.stderr
    assert manifest.read_text("utf-8") == FOREIGN
    assert not (tmp_path / "all").exists()
    manifest.unlink()
    assert export().status == 0
    assert json.loads(manifest.read_text("utf-8"))["records"] == 30


def test_an_export_replaces_the_manifest_of_its_own_earlier_run(
    export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash between manifest and file, the next run puts both there."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "no space left on device")

    manifest = tmp_path / "all.manifest.json"
    with monkeypatch.context() as patch:
        patch.setattr("os.link", full)
        patch.setattr("pathlib.Path.rename", full)
        assert export("--allow-missing").status == 1
    assert json.loads(manifest.read_text("utf-8"))["records"] == 29
    assert not (tmp_path / "all").exists()
    assert export().status == 0
    assert json.loads(manifest.read_text("utf-8"))["records"] == 30
    assert not (tmp_path / "all.part").exists()
