"""A service that is down is named, also where each failure is reported and the command goes on."""

import pytest

from tests.support.cli import Cli

NOWHERE = "127.0.0.1:1"
SETTINGS = {
    "INCOME_BASE_URL": f"http://{NOWHERE}/path/of/it",
    "INCOME_USERNAME": "user",
    "INCOME_PASSWORD": "invented",
}


@pytest.mark.usefixtures("without_pauses")
@pytest.mark.parametrize(
    "command", [("documents",), ("download", "--to", "files")], ids=["documents", "download"]
)
@pytest.mark.parametrize("proxy", ["", "127.0.0.1:2"], ids=["direct", "proxy"])
def test_each_failure_names_the_host(proxy: str, command: tuple[str, ...], cli: Cli) -> None:
    """Host and port of the service, and of a proxy, and nothing else of their addresses."""
    env = {**SETTINGS, "INCOME_PROXY": proxy and f"http://user:invented@{proxy}"}
    ran = cli(*command, "app-1", "app-2", env=env)
    assert (ran.status, ran.stdout) == (1, "")
    for application_id in ("app-1", "app-2"):
        said = next(line for line in ran.stderr.splitlines() if application_id in line)
        through = f" through the proxy {proxy}" if proxy else ""
        assert said.endswith(f" at {NOWHERE}{through}")
    assert "path/of/it" not in ran.stderr
    assert "invented" not in ran.stderr
