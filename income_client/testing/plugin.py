"""The pytest plug-in: fixtures that play the service, its client and their clock.

Knows pytest only; everything else is imported by the fixture that needs it, so that
a test run that uses none of them pays for nothing.
"""

import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

if TYPE_CHECKING:
    from income_client import DownloadPolicy, IncomeClient, SyncIncomeClient
    from income_client.configuration import SyncClientOptions
    from income_client.emulator import RemoteEmulator
    from income_client.system.clock import Clock

    from .clocks import JumpingClock
    from .loops import LoopRunner, LoopThread
    from .service import IncomeService

C = TypeVar("C")

_PACKAGE: Final = __name__.partition(".")[0]
_HIDDEN: Final = (f"{_PACKAGE}.", "attr.")
"""The package, and attrs, which calls its validators."""
_RECORDS: Final = f"{_PACKAGE}.records."
_GENERATED: Final = f"<attrs generated methods {_PACKAGE}."
_SERVICE: Final = pytest.StashKey["IncomeService"]()
_MARKERS: Final = (
    "income_service(**options): of income_service, such as applications=200, faults='token: 500'",
    "income_client(**options): of income_api and income_sync, such as concurrency=1",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that makes `income_emulator` use another process."""
    parser.getgroup("income_client").addoption(
        "--income-emulator",
        metavar="URL",
        default=os.environ.get("INCOME_EMULATOR_URL"),
        help="running emulator for the fixture income_emulator (default: INCOME_EMULATOR_URL, "
        "or an emulator of the test's own)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.fixture(scope="session")
def _income_thread() -> "Iterator[LoopThread]":
    from .loops import LoopThread  # noqa: PLC0415 - only where it is used

    with LoopThread() as thread:
        yield thread


@pytest.fixture
def income_clock() -> "JumpingClock":
    """The clock of `income_service` and of its clients, on which no pause takes time."""
    from .clocks import JumpingClock  # noqa: PLC0415 - as above

    return JumpingClock()


@pytest.fixture
def income_service_options() -> Mapping[str, Any]:
    """Options of `income_service`; override it for a module or a folder of tests."""
    return {}


@pytest.fixture
def income_client_options() -> Mapping[str, Any]:
    """Options of `income_api` and `income_sync`; override it for a module or a folder of tests."""
    return {}


@pytest.fixture
def income_service(
    request: pytest.FixtureRequest,
    income_service_options: Mapping[str, Any],
    income_clock: "Clock",
    _income_thread: "LoopThread",
) -> "Iterator[IncomeService]":
    """A service on this machine with 100 invented applications, in a separate thread."""
    from .service import IncomeService  # noqa: PLC0415 - as above

    usual = {"clock": income_clock, "time_flows": True}
    options = {**usual, **income_service_options, **_marker_options(request, "income_service")}
    with IncomeService(**options, thread=_income_thread) as service:
        request.node.stash[_SERVICE] = service
        yield service


@pytest.fixture
def _income_client_arguments(
    request: pytest.FixtureRequest,
    income_client_options: Mapping[str, Any],
    income_service: "IncomeService",
    income_clock: "Clock",
) -> dict[str, Any]:
    from income_client import IncomeClient  # noqa: PLC0415 - as above
    from income_client.emulator.service_rules import check_names, names_of  # noqa: PLC0415 - as above

    usual = {
        "auth": income_service.oauth2,
        "clock": income_clock,
        "downloads": income_service.download_policy,
    }
    options = {**usual, **income_client_options, **_marker_options(request, "income_client")}
    # The service decides on the URL.
    check_names("income_client", options, [n for n in names_of(IncomeClient) if n != "base_url"])
    return {"base_url": income_service.url, **options}


@pytest.fixture
def income_api(_income_client_arguments: dict[str, Any]) -> "Iterator[IncomeClient]":
    """A client of `income_service`, closed in the event loop that used it."""
    from income_client import IncomeClient  # noqa: PLC0415 - as above

    from .clocks import LoopBoundClock  # noqa: PLC0415 - as above

    async def aclose() -> None:
        await client.aclose()

    clock = LoopBoundClock(_income_client_arguments["clock"], aclose)
    client = IncomeClient(**{**_income_client_arguments, "clock": clock})
    yield client
    clock.close()


@pytest.fixture
def income_sync(_income_client_arguments: dict[str, Any]) -> "Iterator[SyncIncomeClient]":
    """A client of `income_service` for code that is not asynchronous."""
    from income_client import SyncIncomeClient  # noqa: PLC0415 - as above

    with SyncIncomeClient(**_income_client_arguments) as client:
        yield client


@pytest.fixture
def income_client(income_api: "IncomeClient") -> "IncomeClient":
    """The same as `income_api`, by a name that hides the package's own in a test module."""
    return income_api


@pytest.fixture
def income_emulator(
    request: pytest.FixtureRequest, _income_thread: "LoopThread"
) -> "RemoteEmulator":
    """The emulator of ``--income-emulator``, begun anew; `income_service` without the option.

    It is controlled over HTTP in either case, with ``INCOME_EMULATOR_TOKEN`` if that is set.
    """
    from income_client.emulator import RemoteEmulator  # noqa: PLC0415 - as above

    url = request.config.getoption("--income-emulator")
    if url:
        emulator = RemoteEmulator(url, os.environ.get("INCOME_EMULATOR_TOKEN") or None)
        _income_thread.run(emulator.start())
        _income_thread.run(emulator.reset())
    else:
        emulator = RemoteEmulator(request.getfixturevalue("income_service").url)
        _income_thread.run(emulator.start())
    return emulator


@pytest.fixture
def income_run() -> "Iterator[LoopRunner]":
    """Runs coroutines and asynchronous iterators from tests that are not asynchronous."""
    from .loops import LoopRunner  # noqa: PLC0415 - as above

    with LoopRunner() as runner:
        yield runner


@pytest.fixture
def income_environment(
    income_service: "IncomeService", income_clock: "Clock", monkeypatch: pytest.MonkeyPatch
) -> Mapping[str, str]:
    """Lead ``from_env`` and ``from_config`` of both clients to `income_service`.

    A client that they make for its URL, in this process and during the test, has `income_clock`
    unless it is given a clock, and may download the service's files.
    """
    from income_client.configuration import KEYS, Configuration, variable  # noqa: PLC0415 - as above

    for name in (*map(variable, KEYS), "INCOME_CONFIG", "INCOME_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, text in income_service.environment.items():
        monkeypatch.setenv(name, text)
    make_client = Configuration.make_client

    def make_test_client(
        self: Configuration, make: "Callable[..., C]", options: "SyncClientOptions"
    ) -> "C":
        if self.account.base_url == income_service.url:
            options = {"clock": income_clock, **options}
            options["downloads"] = _with_files(options.get("downloads"), income_service)
        return make_client(self, make, options)

    # Replaced for the test, so that a program outside of tests has no seam to pay for.
    monkeypatch.setattr(Configuration, "make_client", make_test_client)
    return income_service.environment


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show a failure without the package's frames, but with the requests to the service."""
    if call.excinfo is not None:
        _hide_package(call.excinfo)
    report = yield
    service = item.stash.get(_SERVICE, None)
    if report.failed and report.when == "call" and service is not None:
        report.sections.append(("Requests to income_service", service.requests.table()))
    return report


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed comparison: the requests of a `RequestCount`, the fields of records."""
    service = sys.modules.get("income_client.testing.service")
    if service is not None:
        for side in (left, right):
            if isinstance(side, service.RequestCount):
                return [f"{left} {op} {right}", *side.requests.table().splitlines()]
    if op == "==" and type(left) is type(right) and type(left).__module__.startswith(_RECORDS):
        from .differences import list_differences  # noqa: PLC0415 - as above

        name = type(left).__name__
        return [f"{name} {op} {name}, which differ in:", *list_differences(left, right)]
    return None


def _marker_options(request: pytest.FixtureRequest, name: str) -> Mapping[str, Any]:
    options: dict[str, Any] = {}
    # The closest comes first, and what it says counts.
    for marker in reversed(list(request.node.iter_markers(name))):
        if marker.args:
            raise pytest.UsageError(f"the marker {name} takes its options by name")
        options |= marker.kwargs
    return options


def _with_files(policy: "DownloadPolicy | None", service: "IncomeService") -> "DownloadPolicy":
    """Return a policy that also allows the files of a service, within the policy's limits."""
    from attrs import evolve  # noqa: PLC0415 - as above

    files = service.download_policy
    if policy is None:
        return files
    return evolve(
        policy,
        allowed_hosts=(*policy.allowed_hosts, *files.allowed_hosts),
        require_https=files.require_https,
        allow_private_networks=files.allow_private_networks,
    )


def _hide_package(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Hide the package's frames from pytest if one of the package's errors was raised."""
    errors: list[BaseException] = []
    error: BaseException | None = excinfo.value
    while error is not None and error not in errors:
        errors.append(error)
        error = error.__cause__ or error.__context__
    for each in errors:
        for frame, _ in walk_tb(each.__traceback__ if _is_ours(each) else None):
            is_generated = frame.f_code.co_filename.startswith(_GENERATED)
            if is_generated or str(frame.f_globals.get("__name__")).startswith(_HIDDEN):
                # Where pytest looks, so that no module has to know of it.
                frame.f_globals["__tracebackhide__"] = lambda shown: _is_ours(shown.value)
    if _is_ours(excinfo.value):
        # Fixtures have hooks of other plug-ins around them.
        excinfo.traceback = excinfo.traceback.filter(lambda at: not at.name.startswith("pytest_"))


def _is_ours(error: BaseException) -> bool:
    errors = sys.modules.get(f"{_PACKAGE}.errors")
    return errors is not None and isinstance(error, errors.IncomeClientError)
