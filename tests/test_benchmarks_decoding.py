"""The figures of decoding come out of a command line; what they are is not for a test to say."""

import re
import subprocess
import sys
from pathlib import Path

import attrs
import msgspec
import orjson
import pytest

from benchmarks import decoding_payloads
from benchmarks.decoding_peers import ApplicationModel, DocumentsModel, Model, PageModel, struct_of
from income_client.protocol.wire import decode, to_json
from income_client.records import Application, ApplicationDocuments, ApplicationPage

ROOT = Path(__file__).parents[1]
REPLIES: list[tuple[type, type[Model], bytes]] = [
    (ApplicationPage, PageModel, decoding_payloads.page(3)),
    (Application, ApplicationModel, decoding_payloads.application()),
    (ApplicationDocuments, DocumentsModel, decoding_payloads.documents()),
]


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "benchmarks.decoding", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_a_quick_run_shows_every_reply_beside_every_peer() -> None:
    """Three replies and the memory stand in one table of 100 columns, with their goals."""
    run = _run("--quick")
    assert run.returncode == 0, run.stderr
    measured = ["application", "documents", "page", "memory"]
    assert re.findall(r"measuring (\S+)", run.stderr) == measured
    head, rule, *lines = run.stdout.splitlines()
    assert head.split() == ["what", "measured", "goal", "met"]
    assert rule == "-" * 100
    assert max(map(len, lines)) <= 100
    assert sum(line.endswith((" yes", " NO")) for line in lines) == 4
    for peer in ("pydantic,", "pydantic while", "orjson", "msgspec"):
        assert len(re.findall(rf"/ {peer}[^\n]* \d+\.\d\d x", run.stdout)) == 3


def test_an_unknown_row_is_refused() -> None:
    """What cannot be measured ends with the names of what can, before anything is measured."""
    run = _run("--quick", "page", "no-such-row")
    assert run.returncode == 2
    assert "no-such-row" in run.stderr
    assert not run.stdout


@pytest.mark.parametrize(("record", "model", "body"), REPLIES)
def test_all_ways_read_the_same(record: type, model: type[Model], body: bytes) -> None:
    """The record goes back as it came, and a peer has the same fields with unknown ones kept."""
    decoded = decode(record, body)
    assert isinstance(decoded, record)
    assert orjson.loads(to_json(decoded)) == orjson.loads(body)
    more = orjson.dumps({**orjson.loads(body), "new_field": 1})
    assert model.model_validate_json(more).model_extra == {"new_field": 1}
    names = [name for name in attrs.fields_dict(record) if name != "extra"]
    assert list(model.model_fields) == names
    assert list(struct_of(model).__struct_fields__) == names


@pytest.mark.parametrize(("record", "model", "body"), REPLIES)
def test_all_ways_are_strict(record: type, model: type[Model], body: bytes) -> None:
    """A number where a text belongs is refused by every way."""
    name = next(iter(attrs.fields_dict(record)))
    wrong = orjson.dumps({**orjson.loads(body), name: 7})
    assert not isinstance(decode(record, wrong), record)
    with pytest.raises(ValueError, match=name):
        model.model_validate_json(wrong)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(wrong, type=struct_of(model))


def test_the_replies_have_the_sizes_of_the_goals() -> None:
    """3.5 KB, 24 KB and some 140 KB, to a tenth."""
    assert len(decoding_payloads.application()) == pytest.approx(3_500, rel=0.1)
    assert len(decoding_payloads.documents()) == pytest.approx(24_000, rel=0.1)
    assert len(decoding_payloads.page(1000)) == pytest.approx(140_000, rel=0.1)
