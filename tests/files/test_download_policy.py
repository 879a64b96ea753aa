"""What a policy of downloads may say."""

import math
import ssl
from typing import Any

import pytest

from income_client import ConfigurationError, DownloadPolicy


def test_by_default_files_come_from_public_object_storage_only() -> None:
    """Over https, from the provider's own domain, from public addresses."""
    policy = DownloadPolicy()
    assert policy.allowed_hosts == ("*.amazonaws.com",)
    assert (policy.require_https, policy.allow_private_networks) == (True, False)
    assert policy.max_bytes == 2**30
    assert policy.max_redirects == 3
    assert policy.minimum_rate == 1024
    assert policy.ssl is None


def test_every_field_can_be_set() -> None:
    """Hosts may come as any iterable; a policy is a value."""
    context = ssl.create_default_context()
    given: dict[str, Any] = {
        "require_https": False,
        "allow_private_networks": True,
        "max_bytes": 1,
        "max_redirects": 0,
        "minimum_rate": 0,
        "ssl": context,
    }
    policy = DownloadPolicy(allowed_hosts=iter(["a.example", "localhost:*"]), **given)
    assert policy.allowed_hosts == ("a.example", "localhost:*")
    assert policy == DownloadPolicy(allowed_hosts=["a.example", "localhost:*"], **given)
    assert hash(policy) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("allowed_hosts", "a.example"),
        ("allowed_hosts", b"a.example"),
        ("allowed_hosts", ()),
        ("allowed_hosts", None),
        ("allowed_hosts", 7),
        ("allowed_hosts", ["a.example", 7]),
        ("allowed_hosts", ["a.example", "*"]),
        ("allowed_hosts", ["https://a.example"]),
        ("require_https", 1),
        ("require_https", None),
        ("allow_private_networks", 0),
        ("allow_private_networks", "no"),
        ("max_bytes", 0),
        ("max_bytes", 1.0),
        ("max_bytes", True),
        ("max_redirects", -1),
        ("max_redirects", 1.0),
        ("max_redirects", True),
        ("max_redirects", None),
        ("minimum_rate", -1),
        ("minimum_rate", math.nan),
        ("minimum_rate", math.inf),
        ("minimum_rate", "1"),
        ("ssl", True),
        ("ssl", False),
        ("ssl", "context"),
    ],
)
def test_what_cannot_be_meant_is_refused(name: str, value: Any) -> None:
    """The error names the field."""
    with pytest.raises(ConfigurationError, match=name):
        DownloadPolicy(**{name: value})
