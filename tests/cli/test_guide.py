"""``income-client guide``: the pages of the guide, in a terminal and in a pipe."""

import re
from pathlib import Path
from typing import Final, get_args

import pytest

import income_client
from income_client.cli.guide import Page, first_sentence
from tests.support.cli import Cli
from tests.support.commands import NAMES
from tests.support.streams import Terminal

GUIDE: Final = Path(income_client.__file__).parent / "guide"
PAGES: Final = get_args(Page)


def test_every_page_has_its_place_in_the_reading_order() -> None:
    assert sorted(PAGES) == sorted(path.stem for path in GUIDE.iterdir())


def test_without_a_page_it_lists_all(cli: Cli) -> None:
    shown = cli("guide")
    assert (shown.status, shown.stderr) == (0, "")
    rows = [line.split("\t") for line in shown.lines]
    assert tuple(name for name, _ in rows) == PAGES
    assert all(sentence.endswith((".", "is")) or len(sentence) > 20 for _, sentence in rows)


@pytest.mark.parametrize("columns", [60, 100])
def test_a_terminal_gets_the_list_as_a_table(columns: int, cli: Cli) -> None:
    shown = cli("guide", terminal=Terminal(columns=columns))
    assert shown.status == 0
    listed = [line.split()[0] for line in shown.screen.splitlines() if line[:1].strip()]
    assert tuple(listed) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_a_pipe_gets_the_page_as_it_is(page: str, cli: Cli) -> None:
    shown = cli("guide", page)
    assert (shown.status, shown.stderr) == (0, "")
    assert shown.stdout == (GUIDE / f"{page}.md").read_text("utf-8")


@pytest.mark.parametrize("columns", [60, 100])
@pytest.mark.parametrize("page", PAGES)
def test_a_terminal_gets_the_page_drawn(page: str, columns: int, cli: Cli) -> None:
    shown = cli("guide", page, terminal=Terminal(columns=columns))
    assert shown.status == 0
    text = (GUIDE / f"{page}.md").read_text("utf-8")
    title, first = text.splitlines()[:3:2]
    assert shown.screen.count("…") == text.count("…"), "a word was cut off"
    assert title.removeprefix("# ") in shown.screen
    assert first.split()[0].strip("`") in shown.screen
    assert not any(mark in shown.screen for mark in ("\n## ", "](", "```", ".md)"))


@pytest.mark.parametrize("name", NAMES)
def test_every_command_is_on_the_page_about_commands(name: str) -> None:
    assert re.search(rf"(`|income-client ){name}\b", (GUIDE / "command-line.md").read_text("utf-8"))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_shown_in_any_encoding(page: str, encoding: str, cli: Cli) -> None:
    env = {"PYTHONIOENCODING": encoding}
    text = (GUIDE / f"{page}.md").read_text("utf-8")
    for shown in (cli("guide", page, env=env), cli("guide", page, env=env, terminal=Terminal())):
        assert shown.status == 0
        assert "Traceback" not in shown.words
        assert shown.words.count("?") == text.count("?"), "a character was lost"
    assert "+-- " in cli("guide", "reading", env=env).stdout


def test_an_unknown_page_is_a_mistake(cli: Cli) -> None:
    shown = cli("guide", "poling")
    assert (shown.status, shown.stdout) == (2, "")
    assert 'Did you mean "polling"?' in " ".join(shown.stderr.replace("│", " ").split())


def test_the_first_sentence_ends_at_its_full_stop() -> None:
    """Or at a colon, before an example."""
    assert first_sentence("# A\n\nYou can `poll`\nit. Then more.\n\nB") == "You can poll it."
    assert first_sentence("# A\n\nThis prints it:\n\n```python") == "This prints it"
