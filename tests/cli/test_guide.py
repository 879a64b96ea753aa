"""``guide`` and ``schema``: what is printed of the package itself, in a terminal and in a pipe."""

import re
from pathlib import Path
from typing import Final, get_args

from hypothesis import given
from hypothesis import strategies as st

import income_client
from income_client.cli.guide import Page, first_sentence
from income_client.engines.postgres import SCHEMA
from tests.cli.commands import NAMES
from tests.support.cli import Cli, few_runs
from tests.support.processes import Terminal

GUIDE: Final = Path(income_client.__file__).parent / "guide"
PAGES: Final = get_args(Page)


def text_of(page: str) -> str:
    """Return a page as it is written."""
    return (GUIDE / f"{page}.md").read_text("utf-8")


def test_every_page_has_its_place_in_the_reading_order() -> None:
    assert sorted(PAGES) == sorted(path.stem for path in GUIDE.iterdir())


def test_without_a_page_it_lists_all(cli: Cli) -> None:
    shown = cli("guide")
    assert (shown.status, shown.stderr) == (0, "")
    rows = [line.split("\t") for line in shown.lines]
    assert tuple(name for name, _ in rows) == PAGES
    assert all(sentence.endswith((".", "is")) or len(sentence) > 20 for _, sentence in rows)

    for columns in (60, 100):
        shown = cli("guide", terminal=Terminal(columns=columns))
        assert shown.status == 0
        listed = [line.split()[0] for line in shown.screen.splitlines() if line[:1].strip()]
        assert tuple(listed) == PAGES


def test_a_pipe_gets_the_page_as_it_is(cli: Cli) -> None:
    for page in PAGES:
        shown = cli("guide", page)
        assert (shown.status, shown.stdout, shown.stderr) == (0, text_of(page), "")


@few_runs
@given(
    page=st.sampled_from(PAGES),
    columns=st.integers(60, 100),
    encoding=st.sampled_from(["ascii", "latin-1", "utf-8"]),
)
def test_a_terminal_gets_the_page_drawn(page: str, columns: int, encoding: str, cli: Cli) -> None:
    """Headings and links lose their marks, and a link names the page that it leads to."""
    env = {"PYTHONIOENCODING": encoding}
    shown = cli("guide", page, terminal=Terminal(columns=columns), env=env)
    assert shown.status == 0
    assert "Traceback" not in shown.screen
    assert shown.words.count("?") == text_of(page).count("?"), "a character was lost"
    title, first = text_of(page).splitlines()[:3:2]
    assert shown.screen.count("…") == text_of(page).count("…"), "a word was cut off"
    assert title.removeprefix("# ") in shown.screen
    assert first.split()[0].strip("`") in shown.screen
    assert not any(mark in shown.screen for mark in ("\n## ", "](", "```", ".md)"))


def test_code_can_be_copied_from_a_terminal(cli: Cli) -> None:
    """Lines of code are neither indented nor wrapped, also on a narrow terminal."""
    shown = cli("guide", "workers", terminal=Terminal(columns=60))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown.screen).splitlines()
    blocks = re.findall(r"(?s)^```\w+\n(.*?)^```", text_of("workers"), re.MULTILINE)
    assert max(map(len, "".join(blocks).splitlines())) > 60
    assert [line for line in "".join(blocks).splitlines() if line not in lines] == []


def test_every_command_is_on_the_page_about_commands() -> None:
    page = text_of("command-line")
    assert [one for one in NAMES if not re.search(rf"(`|income-client ){one}\b", page)] == []


def test_a_tree_is_drawn_in_ascii(cli: Cli) -> None:
    assert "+-- " in cli("guide", "reading", env={"PYTHONIOENCODING": "ascii"}).stdout


def test_the_first_sentence_ends_at_its_full_stop() -> None:
    """Or at a colon, before an example."""
    assert first_sentence("# A\n\nYou can `poll`\nit. Then more.\n\nB") == "You can poll it."
    assert first_sentence("# A\n\nThis prints it:\n\n```python") == "This prints it"


# The SQL of tables


def test_what_is_printed_is_what_stores_run(cli: Cli) -> None:
    shown = cli("schema", "postgres")
    assert (shown.status, shown.stdout, shown.stderr) == (0, SCHEMA, "")
    assert "--   GRANT SELECT" in shown.stdout
