"""What a policy of downloads may say."""

import ssl
from typing import Any

from income_client import DownloadPolicy


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
