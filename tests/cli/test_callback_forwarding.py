"""Where callbacks are handed on to, compared with where they come from."""

import pytest

from income_client.cli.callbacks.forwarding import Forwarding


@pytest.mark.parametrize(
    ("url", "port", "path", "leads"),
    [
        ("http://localhost:9000/callbacks", 9000, "/callbacks", True),
        ("https://[::1]:9000/c%61llbacks?a=/b", 9000, "/callbacks", True),
        ("http://127.0.0.9", 80, "/", True),
        ("https://127.0.0.1/", 443, "/", True),
        ("http://localhost:9000/callbacks", 9001, "/callbacks", False),
        ("http://localhost:9000/callbacks/", 9000, "/callbacks", False),
        ("http://localhost:9000/hook?/callbacks", 9000, "/callbacks", False),
        ("http://localhost/callbacks", 443, "/callbacks", False),
    ],
)
def test_names_of_this_machine_are_one(url: str, port: int, path: str, leads: bool) -> None:
    """The port and the path decide, whichever name of this machine stands there."""
    forwarding = Forwarding(url, basic=None, issuer=None, oauth2=None)
    assert forwarding.leads_to(port, path) is leads
