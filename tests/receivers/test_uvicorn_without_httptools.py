"""uvicorn's protocols where httptools is not installed."""

import subprocess
import sys

import pytest

ASKING = {
    "an import": "from income_client.receivers.uvicorn import HttpToolsProtocol",
    "uvicorn's option": (
        "import uvicorn; "
        "uvicorn.Config('x:y', http='income_client.receivers.uvicorn:HttpToolsProtocol').load()"
    ),
}


@pytest.mark.parametrize("asking", ASKING)
def test_it_says_what_to_install(asking: str) -> None:
    """The protocol on httptools is asked for in vain, and the last line says what to do."""
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['httptools'] = None; {ASKING[asking]}"],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=50,
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith(
        "HttpToolsProtocol needs httptools: pip install httptools, or take H11Protocol"
    )


def test_who_can_do_without_it_need_not_know_this_package_s_errors() -> None:
    """It is an ImportError as well, and still one of the family."""
    script = (
        "import sys; sys.modules['httptools'] = None\n"
        "from income_client import ConfigurationError\n"
        "try:\n"
        "    from income_client.receivers.uvicorn import HttpToolsProtocol\n"
        "except ImportError as error:\n"
        "    assert isinstance(error, ConfigurationError)\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, timeout=50
    )
    assert ended.returncode == 0, ended.stderr


def test_the_other_one_is_there() -> None:
    """The protocol on h11 needs nothing more, and a name that was never there is missing."""
    script = (
        "import sys; sys.modules['httptools'] = None; "
        "import income_client.receivers.uvicorn as it; "
        "assert it.H11Protocol; assert not hasattr(it, 'Nothing')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, timeout=50
    )
    assert ended.returncode == 0, ended.stderr
