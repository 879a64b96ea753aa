"""Where files may come from, as a command line says it."""

import pytest

from income_client import DownloadPolicy
from income_client.cli.downloads.hosts import download_policy


def test_nothing_said_is_the_usual() -> None:
    """Without options it is the policy of every client."""
    assert download_policy((), is_private_allowed=False) == DownloadPolicy()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.1:9000", "[::1]:*"])
def test_this_machine_is_trusted_with_plain_http(host: str) -> None:
    """What names this machine allows http and private networks."""
    policy = download_policy((host,), is_private_allowed=False)
    assert (policy.require_https, policy.allow_private_networks) == (False, True)
    assert host in policy.allowed_hosts


@pytest.mark.parametrize("is_allowed", [False, True])
def test_private_networks_are_said(is_allowed: bool) -> None:
    """Any other host is https, and in a private network only if that is said."""
    policy = download_policy(("files.example",), is_private_allowed=is_allowed)
    assert (policy.require_https, policy.allow_private_networks) == (True, is_allowed)
    assert policy.allowed_hosts == (*DownloadPolicy().allowed_hosts, "files.example")
