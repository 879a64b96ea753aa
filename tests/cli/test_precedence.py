"""Which settings win: a file given by --config, a profile, the environment, the file's top."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from income_client.testing import IncomeService
from tests.support.cli import Cli

Places = Mapping[str, IncomeService]

PLACES: Final = ("environment", "top", "profile", "other")
AS_HAND: Final = ("--config", "{file}")
NAMED: Final = {"INCOME_CONFIG": "{file}"}


@pytest.fixture
def places() -> Iterator[Places]:
    """One service for each place that may name one."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(IncomeService(1)) for name in PLACES}


def table(service: IncomeService, *keys: str) -> str:
    """Return lines of TOML that lead to a service, or some of them."""
    said = {
        "base_url": service.url,
        "client_id": service.oauth2.client_id,
        "client_secret": service.oauth2.client_secret.reveal(),
    }
    return "".join(f'{key} = "{said[key]}"\n' for key in keys or said)


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    """Write a file of settings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


def asked(places: Places) -> list[str]:
    """Return the places whose service was asked anything."""
    return [name for name, service in places.items() if service.requests]


@pytest.mark.parametrize(
    ("arguments", "variables", "wins"),
    [
        ((), {}, "environment"),
        ((), NAMED, "environment"),
        (AS_HAND, {}, "top"),
        (("--profile", "two"), NAMED, "profile"),
        ((*AS_HAND, "--profile", "two"), {}, "profile"),
        (AS_HAND, {"INCOME_CONFIG": "{other}"}, "top"),
        (("--profile", "three"), NAMED, "environment"),
        ((*AS_HAND, "--profile", "three"), {}, "top"),
    ],
    ids=[
        "environment-over-default-file",
        "environment-over-file-of-a-variable",
        "config-over-environment",
        "profile-over-environment",
        "config-and-profile-over-environment",
        "config-over-file-of-a-variable",
        "empty-profile-under-environment",
        "config-with-empty-profile-over-environment",
    ],
)
def test_the_highest_place_wins(
    cli: Cli,
    places: Places,
    tmp_path: Path,
    arguments: tuple[str, ...],
    variables: dict[str, str],
    wins: str,
) -> None:
    """Every place names another service, and only that of the highest one is asked."""
    text = f"{table(places['top'])}[profiles.two]\n{table(places['profile'])}[profiles.three]\n"
    files = {
        "file": written(tmp_path / "home/.config/income-client/config.toml", text),
        "other": written(tmp_path / "other.toml", table(places["other"])),
    }
    ended = cli.at(places["environment"])(
        *("applications", "-q"),
        *(one.format(**files) for one in arguments),
        env={name: one.format(**files) for name, one in variables.items()},
    )
    assert (ended.status, asked(places)) == (0, [wins])


def test_a_file_given_by_hand_needs_its_own_credentials(
    cli: Cli, places: Places, tmp_path: Path
) -> None:
    """Those of the environment belong to another address, which is said; nothing is sent."""
    path = written(tmp_path / "by-hand.toml", table(places["top"], "base_url"))
    ended = cli.at(places["environment"])("applications", "--config", str(path))
    assert (ended.status, ended.stdout, asked(places)) == (2, "", [])
    assert ended.stderr.endswith("(the credentials of the environment are for another address)\n")


def test_a_secret_of_the_environment_completes_a_file_given_by_hand(
    cli: Cli, places: Places, tmp_path: Path
) -> None:
    """What the file leaves out may come from the environment, as long as the address fits."""
    path = written(tmp_path / "by-hand.toml", table(places["top"], "base_url", "client_id"))
    secret = places["top"].environment["INCOME_CLIENT_SECRET"]
    command = ("applications", "-q", "--config", str(path))
    ended = cli(*command, env={"INCOME_CLIENT_SECRET": secret})
    assert (ended.status, asked(places)) == (0, ["top"])


def test_credentials_of_a_profile_go_to_no_address_that_is_set(
    cli: Cli, places: Places, tmp_path: Path
) -> None:
    """A profile without an address has credentials for the file's, and for no other."""
    own = table(places["profile"], "client_id", "client_secret")
    path = written(tmp_path / "file", f"{table(places['top'])}[profiles.two]\n{own}")
    ended = cli(
        *("applications", "--profile", "two"),
        env={"INCOME_CONFIG": str(path), "INCOME_BASE_URL": places["environment"].url},
    )
    assert (ended.status, asked(places)) == (2, [])
    assert "INCOME_BASE_URL is set to another address" in ended.stderr


@pytest.mark.parametrize("mode", [0o644, 0o664, 0o600], ids=oct)
def test_a_file_without_a_secret_may_be_read_by_all(
    cli: Cli, places: Places, tmp_path: Path, mode: int
) -> None:
    """Address and client id are no secrets, so the file needs no mode 0600."""
    path = written(tmp_path / "file", table(places["top"], "base_url", "client_id"), mode)
    secret = places["top"].environment["INCOME_CLIENT_SECRET"]
    command = ("applications", "-q", "--config", str(path))
    ended = cli(*command, env={"INCOME_CLIENT_SECRET": secret})
    assert (ended.status, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    "secret",
    [
        'client_secret = "canary"\n',
        'password = "canary"\n',
        'proxy = "http://user:canary@127.0.0.1:1"\n',
        '[profiles.two]\nclient_secret = "canary"\n',
        '[profiles.two]\nproxy = "http://user:canary@127.0.0.1:1"\n',
    ],
    ids=["client-secret", "password", "proxy", "profile", "proxy-of-a-profile"],
)
def test_a_file_with_a_secret_must_be_private(cli: Cli, tmp_path: Path, secret: str) -> None:
    """Wherever the secret is in the file, others must not be able to read it."""
    path = written(tmp_path / "file", f'base_url = "http://127.0.0.1:1"\n{secret}', 0o644)
    ended = cli("applications", "--config", str(path))
    assert ended.status == 2
    assert f"chmod 600 {path}" in ended.stderr
    assert "canary" not in ended.stderr
