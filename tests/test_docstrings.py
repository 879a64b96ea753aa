"""``help()`` tells all that a caller must know, and what it shows works."""

import inspect
import re
from doctest import ELLIPSIS
from pathlib import Path
from types import FunctionType
from typing import Final

import pytest
from sybil import Example, Sybil
from sybil.parsers.rest import DocTestParser

import income_client
from tests.support.docstrings import RULES, Rule, Subject, public

SUBJECTS: Final = tuple(public())
PACKAGE: Final = Path(income_client.__file__).parent
_SECTION: Final = re.compile(r"sections? \d")
_EXAMPLES: Final = Sybil([DocTestParser(optionflags=ELLIPSIS)], pattern="*.py", path=str(PACKAGE))

IMPLEMENTS: Final = (
    *("BasicAuth", "OAuth2ClientCredentials", "TokenError", "CallbackReceiver", "Callback"),
    *("CallbackTokenIssuer", "CallbackBearerAuth", "CallbackSourceNetworks"),
    *("CallbackClientCertificate", "CallbackTarget", "callback_ssl_context"),
    *("IncomeClient.get_application_page", "IncomeClient.get_application"),
    *("IncomeClient.get_documents", "IncomeClient.find_application", "IncomeClient.poll"),
    *("IncomeClient.list_applications", "IncomeClient.fetch_records"),
    *("IncomeClient.fetch_documents", "IncomeClient.download", "IncomeClient.download_all"),
)  # fmt: skip
"""What stands for a part of the contract, the records of its replies aside."""
OURS: Final = (
    "ApplicationRecord", "DeadLetter", "DocumentEntry", "DocumentSource", "DownloadProgress",
    "DownloadedFile", "PaystubEntry", "Window",
)  # fmt: skip
"""Records of this package's own, of which the contract knows nothing."""


def _modules_with_examples() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text("utf-8")]


def _by_name(name: str) -> Subject:
    return next(one for one in SUBJECTS if one.name.endswith(f".{name}"))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.__name__))
def test_docstrings_keep_the_rules(rule: Rule) -> None:
    """Each public name, method and property has what the rule asks for."""
    faults = [f"{one.name} {fault}" for one in SUBJECTS for fault in rule(one)]
    assert not faults, "\n".join(faults)


def test_nothing_public_is_left_out() -> None:
    """The rules see every class and function that the package offers."""
    seen = {one.value for one in SUBJECTS if one.owner is None}
    for name in income_client.__all__:
        value = getattr(income_client, name)
        assert value in seen or not isinstance(value, type | FunctionType), name
    assert len(SUBJECTS) > 150


@pytest.mark.parametrize("name", IMPLEMENTS)
def test_the_contract_is_named_where_it_is_kept(name: str) -> None:
    """The section stands in the first sentences."""
    assert _SECTION.search(_by_name(name).text.partition("\n\n")[0])


def test_records_name_their_section() -> None:
    """Each part of a reply says where the contract shows it."""
    for one in SUBJECTS:
        module = inspect.getmodule(one.value)
        is_record = module is not None and ".records." in module.__name__
        if is_record and one.owner is None and not one.name.endswith(OURS):
            assert _SECTION.search(one.text), one.name


@pytest.mark.parametrize(
    "path", _modules_with_examples(), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_examples_in_docstrings_work(path: Path) -> None:
    """They print what stands below them."""
    examples: list[Example] = list(_EXAMPLES.parse(path))
    assert examples
    for example in examples:
        example.evaluate()


@pytest.mark.parametrize(
    ("rule", "source", "fault"),
    [
        ("arguments", "def read(path, limit):\n    '''Read it.'''", "says nothing of path, limit"),
        (
            "arguments",
            "def read():\n    '''Read it.\n\n    Args:\n        path: where.\n    '''",
            "speaks of path, which it does not take",
        ),
        ("first_line", "def read():\n    '''read it'''", "begins with no sentence"),
        ("result", "def ask() -> int:\n    '''Ask it.'''", "does not say what it returns"),
        (
            "units",
            "def wait(pause: float):\n    '''Wait.\n\n    Args:\n        pause: how long.\n    '''",
            "pause has no unit",
        ),
    ],
)
def test_the_rules_see_faults(rule: str, source: str, fault: str) -> None:
    """A docstring that lacks something is told."""
    namespace: dict[str, object] = {}
    exec(source, namespace)
    (function,) = (one for one in namespace.values() if inspect.isfunction(one))
    (chosen,) = (one for one in RULES if one.__name__ == rule)
    assert list(chosen(Subject("read", function))) == [fault]
