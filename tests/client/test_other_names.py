"""A name, an attribute or an argument that is looked for wrongly is answered with the right one."""

import copy
import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import pytest

import income_client
from income_client import (
    ConfigurationError,
    IncomeClient,
    MemoryCheckpointStore,
    NotFoundError,
    SyncIncomeClient,
    errors,
)
from income_client._lazy import MOVED
from income_client._other_names import ARGUMENTS, ATTRIBUTES, GUESSES, HOMES
from income_client.testing import make_application, make_record
from tests.support.clients import BASIC
from tests.test_docstrings import PACKAGES

URL = "http://127.0.0.1:9"
NAMES = [(name, home) for home, names in HOMES.items() for name in names.split()]
TOP: Any = income_client


def classes() -> dict[str, type]:
    """Return every public class by its name, and those of iterators."""
    found: dict[str, type] = {}
    for package in PACKAGES:
        for value in map(import_module(package).__dict__.get, import_module(package).__dict__):
            if isinstance(value, type):
                found[value.__name__] = value
    return found | {name: getattr(TOP, name) for name in TOP.__all__ if name[0].isupper()}


@pytest.mark.parametrize(("name", "home"), NAMES)
def test_a_name_of_another_package_is_answered_with_its_place(name: str, home: str) -> None:
    """The import statement and the attribute both say where it is, and it is there."""
    assert hasattr(import_module(f"income_client.{home}"), name)
    place = f"it is in income_client.{home}"
    start = f"cannot import name '{name}' from 'income_client': {place}"
    with pytest.raises(ImportError, match=re.escape(start)):
        exec(f"from income_client import {name}")
    start = f"module 'income_client' has no attribute '{name}': {place}"
    with pytest.raises(AttributeError, match=re.escape(start)):
        getattr(TOP, name)


def test_every_public_name_of_receivers_testing_and_events_is_answered() -> None:
    """Names of Python's own kind, such as a request of the transport, are not looked for."""
    answered = {name for names in (*HOMES.values(), *MOVED.values()) for name in names.split()}
    for package in ("events", "testing", "exporting", "audit", "sync", "walk", "records"):
        offered = set(import_module(f"income_client.{package}").__all__)
        assert offered - {"Fault", "Requests", "ServiceFaults", "DocumentSource"} <= (
            answered | set(TOP.__all__)
        )


@pytest.mark.parametrize(("guess", "meant"), GUESSES.items())
def test_a_name_of_other_packages_is_answered_with_the_one_meant(guess: str, meant: str) -> None:
    assert not hasattr(income_client, guess)
    with pytest.raises(ImportError) as caught:
        exec(f"from income_client import {guess}")
    assert caught.value.msg == f"cannot import name {guess!r} from 'income_client': it is {meant}"
    first = meant.partition(" ")[0].rstrip(",")
    assert first in {*TOP.__all__, *classes()} or import_module(first).__name__ == first


def test_packages_answer_as_the_top_does() -> None:
    for line, answer in (
        ("from income_client.receivers import IncomeClient", "it is in income_client"),
        ("from income_client.records import RequestSent", "it is in income_client.events"),
        ("from income_client.receivers import CallbackJWTAuth", "it is CallbackBearerAuth"),
    ):
        with pytest.raises(ImportError, match=answer):
            exec(line)


@pytest.mark.parametrize(
    ("owner", "name", "meant"),
    [(owner, *entry) for owner, table in ATTRIBUTES.items() for entry in table.items()],
)
def test_an_attribute_that_is_not_there_is_answered(owner: str, name: str, meant: str) -> None:
    """The class knows the answer, has no such attribute, and has the one that is named."""
    cls: Any = classes()[owner]
    instance = cls.__new__(cls)
    assert not hasattr(instance, name)
    with pytest.raises(AttributeError) as caught:
        getattr(instance, name)
    assert str(caught.value) == f"{owner!r} object has no attribute {name!r}: it is {meant}"
    first = re.match(r"\w+", meant)
    if first is not None and first[0] not in {"client", "no"}:
        assert hasattr(cls, first[0]) or first[0] in vars(errors.IncomeClientError("")), meant


def test_the_errors_of_a_subclass_are_answered_too() -> None:
    with pytest.raises(
        AttributeError, match=r"'NotFoundError' object .* 'status_code': it is status"
    ):
        _ = TOP.NotFoundError("").status_code


@pytest.mark.parametrize("function", ARGUMENTS)
def test_an_argument_that_there_is_not_is_answered(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function does not take what the table answers, and names the argument that it takes."""
    for name in ("INCOME_BASE_URL", "INCOME_USERNAME", "INCOME_PASSWORD"):
        monkeypatch.setenv(name, URL)
    client = IncomeClient(URL, auth=BASIC)
    calls: dict[str, Callable[..., object]] = {
        "IncomeClient": lambda **options: IncomeClient(URL, auth=BASIC, **options),
        "SyncIncomeClient": lambda **options: SyncIncomeClient(URL, auth=BASIC, **options),
        "from_config": IncomeClient.from_config,
        "from_env": IncomeClient.from_env,
        "poll": lambda **options: client.poll(MemoryCheckpointStore(), **options),
    }
    known = inspect.signature(client.poll if function == "poll" else IncomeClient).parameters
    for name, meant in ARGUMENTS[function].items():
        with pytest.raises((TypeError, ConfigurationError), match=f"{name}.*: it is ") as caught:
            calls[function](**{name: "x"})
        assert str(caught.value).endswith(f": it is {meant}")
        assert "=" not in meant or meant.partition("=")[0] in known


def test_missing_credentials_name_the_argument_that_takes_them() -> None:
    wrong: dict[str, Any] = {"client_id": "a", "client_secret": "b"}
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'auth'"):
        IncomeClient(URL, **wrong)


def test_what_has_to_be_iterated_asynchronously_says_so() -> None:
    """Type checkers see no ``__iter__``; `iter` raises a TypeError, as for any other object."""
    client: Any = IncomeClient(URL, auth=BASIC)
    for iterator in (
        client.list_applications(),
        client.poll(MemoryCheckpointStore()),
        client.fetch_records([]),
        client.download_all([], "files"),
    ):
        with pytest.raises(TypeError, match=r"write `async for`, or take it from a SyncIncome"):
            iter(iterator)


def test_other_attributes_are_missing_as_ever() -> None:
    """Copies, pickles and ``hasattr`` work, and a failing property keeps its own error."""
    record = make_record()
    assert copy.deepcopy(record) == record == pickle.loads(pickle.dumps(record))
    error = pickle.loads(pickle.dumps(NotFoundError("gone", status=404)))
    assert (error.status, hasattr(error, "status_code"), hasattr(record, "_id")) == (
        404,
        False,
        False,
    )
    with pytest.raises(AttributeError, match=r"^'Application' object has no attribute 'nothing'$"):
        _ = make_application().nothing  # type: ignore[attr-defined]
    nobody: Any = None
    broken = income_client.ApplicationRecord(application=nobody, documents=None)
    with pytest.raises(
        AttributeError, match=r"^'NoneType' object has no attribute 'application_id'"
    ):
        _ = broken.application_id
    assert not isinstance(record, Iterable)


def test_the_answers_are_loaded_by_a_failure_only() -> None:
    script = (
        "import sys, income_client\n"
        "from income_client.errors import NotFoundError\n"
        "auth = income_client.BasicAuth('a', 'b')\n"
        "client = income_client.IncomeClient('http://127.0.0.1:9', auth=auth)\n"
        "client.poll(income_client.MemoryCheckpointStore()), client.list_applications()\n"
        "print('income_client._other_names' in sys.modules)\n"
        "print(hasattr(client, 'applications'), 'income_client._other_names' in sys.modules)\n"
    )
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["False", "False", "True"]
