"""The tables, links, names and figures of the README and the guide are the project's."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

import income_client
from benchmarks.report import figures_written_in, from_json, to_markdown
from income_client import errors
from income_client.cli.app import _status_of
from income_client.cli.exit_status import ExitStatus
from income_client.http.endpoints import Response, get_application
from income_client.http.replies import failure_of
from tests.changed import FOLDERS, find_tests
from tests.support.pages import (
    DEMO,
    EXAMPLES,
    GUIDE,
    PACKAGE,
    PAGES,
    README,
    SKILL,
    TESTS,
    contents,
    example_files,
)
from tests.support.processes import ROOT

THREATS: Final = ROOT / ".github" / "SECURITY.md"
RESULTS: Final = ROOT / "benchmarks" / "results.json"
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TEXT: Final = README.read_text("utf-8")
COMES_WITH: Final[Mapping[str, str]] = {
    "asgiref": "django",
    "cryptography": "'income-client[callbacks]'",
    "joserfc": "'income-client[callbacks]'",
    "asyncpg": "'income-client[postgres]'",
    "nats": "'income-client[nats]'",
    "pyarrow": "'income-client[parquet]'",
    "opentelemetry": "opentelemetry-sdk",
    "prometheus_client": "prometheus-client",
    "pytest_asyncio": "pytest-asyncio",
    "starlette": "fastapi",
}
"""Packages that another name installs."""
COME_ALONG: Final = sys.stdlib_module_names | {
    *("aiohttp", "attrs", "cattrs", "income_client", "yarl"),
}
"""Packages that come with this one."""


def test_the_clients_that_are_made_in_code_can_be_made() -> None:
    """The guide shows one for each kind of credentials."""
    text = (GUIDE / "reading.md").read_text("utf-8")
    shown = re.findall(r"`(IncomeClient\(base_url, auth=[^`]+\))`", text)
    assert len(shown) == 2
    names = dict.fromkeys(("client_id", "client_secret", "username", "password"), "invented")
    names["base_url"] = "https://service.example"
    for line in shown:
        offered = {name: getattr(income_client, name) for name in re.findall(r"[A-Z]\w+", line)}
        client = eval(line, offered | names)
        assert isinstance(client, income_client.IncomeClient)


def test_the_readme_is_short() -> None:
    """What only some readers need is on a page of the guide."""
    assert len(TEXT.splitlines()) <= 360


def test_each_extra_is_in_its_table() -> None:
    """The table names all extras of the package."""
    (table,) = re.findall(r"^\| extra \|.*\n\|[-| :]+\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    cells = [line.split("|")[1] for line in table.splitlines()]
    named = re.findall(r"`(\w+)`", " ".join(cells))
    assert sorted(named) == sorted(PROJECT["optional-dependencies"])


def test_each_version_is_the_one_of_the_package() -> None:
    """Versions of the package, of Python with their ends, and the lowest aiohttp are correct."""
    assert f"This is {income_client.__version__}," in TEXT
    assert f"CPython {PROJECT['requires-python'].removeprefix('>=')} or later" in TEXT
    (line,) = re.findall(r"^\| CPython \|(.*)\|$", TEXT, re.MULTILINE)
    versions = re.findall(r"3\.\d+", line)
    of_package = [
        name.rpartition(" ")[2] for name in PROJECT["classifiers"] if "Python :: 3." in name
    ]
    assert versions == of_package
    assert PROJECT["requires-python"] == f">={versions[0]}"
    (ends,) = re.findall(r"^\| supported until \|(.*)\|$", TEXT, re.MULTILINE)
    # Five years after its first release, which 3.11 had in October 2022.
    assert re.findall(r"October (\d+)", ends) == [
        str(2016 + int(version.removeprefix("3."))) for version in versions
    ]
    (aiohttp,) = [line for line in PROJECT["dependencies"] if line.startswith("aiohttp")]
    lowest, end = aiohttp.removeprefix("aiohttp>=").split(",")
    assert f"series 3 from {lowest} on" in TEXT
    assert end == "<4"


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    """Entries are dated, the newest first."""
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    entries = re.findall(r"^## \[([^]]+)\] - (\d{4}-\d\d-\d\d)$", changes, re.MULTILINE)
    assert entries[0][0] == income_client.__version__
    assert [day for _, day in entries] == sorted((day for _, day in entries), reverse=True)


def test_every_promise_is_linked_to_its_tests() -> None:
    """The guarantees are numbered as the promises are."""
    linked = re.findall(r"\[(\d+)\]\((tests/\w+/test_(\d\d)_\w+\.py)\)", TEXT)
    assert [number for number, *_ in linked] == [str(number) for number in range(1, 17)]
    assert all((ROOT / file).exists() and int(own) == int(one) for one, file, own in linked)


@pytest.mark.parametrize("page", [*PAGES, SKILL, THREATS], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    """To a file, a heading of the page, or a heading of another one."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if target.startswith("https://"):
            continue  # a source of another project
        file, _, anchor = target.partition("#")
        # The package may be installed elsewhere than beside the README.
        folder = PACKAGE.parent if file.startswith("income_client/") else page.parent
        found = folder / file if file else page
        assert found.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", found.read_text("utf-8"), re.MULTILINE)
            assert anchor in {_anchor(heading) for heading in headings}, target


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


def test_the_skill_is_short_and_imports_each_name_from_its_place() -> None:
    """A row names modules, the later ones by their ends, and names that these have."""
    text = SKILL.read_text("utf-8")
    assert len(text.splitlines()) < 130
    table = text.partition("| import from | names |\n")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[1:]]
    for place, names in rows:
        first, *others = re.findall(r"`([\w.]+)`", place)
        parent = first.rpartition(".")[0]
        modules = [import_module(first), *(import_module(f"{parent}{name}") for name in others)]
        for name in re.findall(r"`(\w+)`", names):
            assert any(hasattr(module, name) for module in modules), name
    assert len(rows) >= 5


def test_every_section_of_the_contract_that_docstrings_cite_is_on_its_page() -> None:
    """A citation may be wrapped, and name several sections, such as 4.1 to 4.3."""
    headings = (GUIDE / "contract.md").read_text("utf-8")
    sections = set(re.findall(r"^##+ (\d(?:\.\d)?)\. ", headings, re.MULTILINE))
    cited = set[str]()
    for path in PACKAGE.rglob("*.py"):
        found = re.findall(
            r"contract\s+sections?\s+((?:\d(?:\.\d)?(?:,\s+|\s+and\s+|\s+to\s+)?)+)",
            path.read_text("utf-8"),
        )
        cited |= set(re.findall(r"\d(?:\.\d)?", " ".join(found)))
    assert len(cited) > 10
    assert cited - sections == set()


def test_every_module_is_in_the_table_of_subjects() -> None:
    """Each module has one row in the table, except modules that only collect names."""
    text = (GUIDE / "internals.md").read_text("utf-8")
    table = text.partition("## Which file decides what")[2].partition("\n## ")[0]
    cells = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    named = re.findall(r"`([\w/]+\.py)`", cells)
    assert len(named) == len(set(named))
    modules = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    assert set(named) <= modules, set(named) - modules
    assert {path for path in modules - set(named) if not path.endswith("/__init__.py")} == set()


def test_every_module_has_tests_that_contributors_find() -> None:
    """``tests.changed`` runs them; the page has a row for each folder of another name."""
    for path in PACKAGE.rglob("*.py"):
        found = list(find_tests(path.relative_to(ROOT).as_posix()))
        assert found, path
        assert all((ROOT / one).exists() for one in found), found
    rows = {f"| `{part}/` | `tests/{folder}` |" for part, folder in FOLDERS.items()}
    assert rows <= set((GUIDE / "contribute.md").read_text("utf-8").splitlines())


def test_what_recipes_look_for_is_there() -> None:
    """Files, in the package or beside it, and the names in them, which may change one day."""
    text = (GUIDE / "contribute.md").read_text("utf-8")
    named = re.findall(r"`([\w/]+\.(?:py|md|toml))`", text)
    missing = {name for name in named if not any((one / name).exists() for one in (PACKAGE, ROOT))}
    assert missing == {"cli/NAME.py", "engines/NAME.py"}
    text = " ".join(text.split())
    behind = re.findall(r"`([\w./]+)` \(`(\w+)`\)", text)
    before = [(file, name) for name, file in re.findall(r"`(\w+)` in `([\w./]+)`", text)]
    places = [
        (folder / file, name) for file, name in (*behind, *before) for folder in (PACKAGE, ROOT)
    ]
    found = [(path, name) for path, name in places if path.is_file()]
    assert len(found) >= len(behind)
    for path, name in found:
        assert re.search(rf"\b{name}\b", path.read_text("utf-8")), (path.name, name)


def test_what_the_client_works_with_is_tested() -> None:
    """Each line names a test of its own subject, which exists."""
    text = (PACKAGE / "guide" / "web.md").read_text("utf-8")
    table = text.partition("\n## Works with\n")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert len(lines) >= 9
    _assert_are_tests([re.findall(r"`tests/([^`]+)` \|$", line)[0] for line in lines])


def test_what_the_guide_says_of_several_machines_is_tested() -> None:
    """Each row of the tables names a test, or says that it could not be tried."""
    cells = _last_cells((GUIDE / "scaling.md").read_text("utf-8"), "test")
    assert len(cells) > 25
    named = [cell for cell in cells if cell not in {"as above", "not tried here"}]
    assert len(named) > 20
    _assert_are_tests(named)


def test_each_defence_of_the_threat_model_is_tested() -> None:
    """Each row names the module that defends, and a test that holds it."""
    text = THREATS.read_text("utf-8")
    cells = _last_cells(text, "held by")
    assert len(cells) > 20
    _assert_are_tests(cells)
    modules = re.findall(r"\| `(\w+/\w+\.py)` \| `[^|]+` \|$", text, re.MULTILINE)
    assert len(modules) == len(cells)
    assert [name for name in modules if not (PACKAGE / name).exists()] == []


def _last_cells(text: str, heading: str) -> list[str]:
    """Return the last cells of the rows of all tables whose last column has a heading."""
    table = rf"^\|.* {heading} \|\n\|[-|]+\|\n((?:\|.*\n)+)"
    rows = "".join(re.findall(table, text, re.MULTILINE)).splitlines()
    return [row.split("|")[-2].strip() for row in rows]


def _assert_are_tests(cells: list[str]) -> None:
    for cell in cells:
        file, _, name = cell.strip("`").partition("::")
        source = (ROOT / "tests" / file).read_text("utf-8")
        assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), cell


def test_each_library_is_in_the_list_of_what_it_is_trusted_with() -> None:
    """With the lowest version that is allowed."""
    text = (GUIDE / "production.md").read_text("utf-8").partition("\n## Dependencies\n")[2]
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    listed: dict[str, str] = {}
    for names, _, versions, _ in rows:
        pairs = zip(names.removeprefix("| ").split(", "), versions.split(", "), strict=True)
        listed.update(pairs)
    tools = {"bench", "dev", "full", "lint", "site"}
    extras = PROJECT["optional-dependencies"]
    used = [line for name in extras.keys() - tools for line in extras[name]]
    floors = (line.partition(">=") for line in (*PROJECT["dependencies"], *used))
    allowed = {name.partition("[")[0]: lowest.split(",")[0] for name, _, lowest in floors}
    assert listed == allowed


def test_each_sentence_of_the_runbook_is_one_of_the_program() -> None:
    """A text that has changed must change there too: an operator searches for its words."""
    lines = (GUIDE / "runbook.md").read_text("utf-8").splitlines()
    cells = [line.split(" | ")[0] for line in lines if line.startswith("| `")]
    quoted = [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]
    assert len(quoted) > 60
    texts = "\n".join(text for path in PACKAGE.rglob("*.py") for text in _texts_of(path))
    for sentence in quoted:
        for words in sentence.split(" ... "):
            assert len(words) >= 9, words
            assert words in texts, words


def test_the_table_of_errors_is_that_of_the_classes() -> None:
    """Each class is a row, below its parent; status, ``retryable`` and exit status are its own."""
    text = (GUIDE / "errors.md").read_text("utf-8")
    row = re.compile(r"^\| ([· ]*)`(\w+)` \| (\d*) ?\| (\w+) \|.*\| (\d*) ?\|$", re.MULTILINE)
    root = income_client.IncomeClientError
    special = {
        "CheckpointConflictError": str(int(ExitStatus.REPLACED)),
        "CallbackRejectedError": "",  # no command has a receiver that ends with it
    }
    parents, found = [root], set()
    for mark, name, status, retryable, exit_status in row.findall(text):
        cls: Any = getattr(errors, name)
        error = cls.__new__(cls)
        error.status = None
        del parents[1 + mark.count("·") :]
        assert cls.__bases__[0] is parents[-1]
        parents.append(cls)
        found.add(cls)
        assert retryable == ("yes" if cls.default_retryable else "no")
        assert exit_status == special.get(name, str(int(_status_of(error))))
        if status:
            reply = Response(status=int(status), headers={}, body=b"")
            assert type(failure_of(get_application("a"), reply)) is cls
    classes = {value for value in vars(errors).values() if isinstance(value, type)}
    assert found == {cls for cls in classes if issubclass(cls, root)} - {root}


def _texts_of(path: Path) -> list[str]:
    """Return the names of classes and the texts in the code of a module, without docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return found + [
        node.value
        for node in constants
        if isinstance(node.value, str) and id(node) not in docstrings
    ]


def test_every_page_is_in_the_table_of_the_guide() -> None:
    linked = re.findall(r"^\| \[[\w-]+\]\(income_client/guide/([\w-]+\.md)\)", TEXT, re.MULTILINE)
    assert sorted(linked) == [page.name for page in PAGES[1:]]


@pytest.mark.parametrize("name", example_files())
def test_an_example_says_what_else_it_needs(name: str) -> None:
    """The first line names the file, the second installs the libraries beside the package."""
    text = (EXAMPLES / name).read_text("utf-8")
    first, second, *_ = text.splitlines()
    assert first == f"# {name}"
    tree = ast.parse(text)
    found = {name.partition(".")[0] for node in ast.walk(tree) for name in _imported(node)}
    siblings = {one.stem for one in EXAMPLES.iterdir()}
    needed = {COMES_WITH.get(name, name) for name in found - COME_ALONG - siblings}
    words = second.removeprefix("# pip install ").split()
    extras = re.findall(r"income-client\[(\w+)\]", second)
    assert needed <= {*words, *extras, *(re.sub(r"'|\[.*\]", "", word) for word in words)}


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [] if node.level else [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def test_ci_takes_both_commands_from_here() -> None:
    """CI reads both commands from this file, so that the two cannot drift apart."""
    assert contents("sh") == [f"{DEMO}\n", f"{TESTS}\n"]
    ended = subprocess.run(
        [ROOT / ".ci" / "run", "commands"], capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines() == [TESTS, DEMO]


def test_extras_in_commands_exist() -> None:
    texts = " ".join(page.read_text("utf-8") for page in PAGES)
    named = re.findall(r"(?:income-client|\.)\[([\w,]+)\]", texts)
    extras = {extra for several in named for extra in several.split(",")}
    assert {"callbacks", "cli", "dev"} <= extras
    assert extras <= set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_quoted_figure_is_measured(page: Path) -> None:
    """Each label is in the report; figures and bars that are written anew are those of the page."""
    text, report = page.read_text("utf-8"), from_json(RESULTS.read_text("utf-8"))
    tables = re.findall(r"^\| [^|]+ \| measured \|\n\|[-:| ]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    quoted = re.findall(r"^\| (.+) \| (.+) \|$", "".join(tables), re.MULTILINE)
    assert {label for label, _ in quoted} <= {row.label for row in report.rows()}
    blank = re.sub(r"^.*█ [\d.]+\n", "", text, flags=re.MULTILINE)
    for label, figure in quoted:
        blank = blank.replace(f"| {label} | {figure} |", f"| {label} | ? |")
    assert figures_written_in(blank, report) == text


def test_the_stored_results_are_of_one_whole_run() -> None:
    """The table beside them has the same figures."""
    report = from_json(RESULTS.read_text("utf-8"))
    assert not report.is_quick
    assert RESULTS.with_suffix(".md").read_text("utf-8") == to_markdown(report)
