"""Basic credentials of callbacks: one of several pairs, and nothing else, is let through."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from income_client import BasicAuth, CallbackBasicAuth, ConfigurationError, Secret
from income_client.protocol.callbacks.refusals import Refusal
from tests.support.leaks import package_frames

AUTH = CallbackBasicAuth("service", "invented-1", also=[BasicAuth("service", "invented-2")])


def encoded(pair: str, encoding: str = "utf-8") -> bytes:
    """Return a pair as it stands in the header."""
    return base64.b64encode(pair.encode(encoding))


@pytest.mark.parametrize("pair", ["service:invented-1", "service:invented-2"])
def test_every_pair_is_accepted(pair: str) -> None:
    """So a password can be changed on one side after the other."""
    assert AUTH.refusal(encoded(pair)) is None


@pytest.mark.parametrize(
    "pair",
    [
        "", ":", "service", "service:", ":invented-1", "service:invented", "Service:invented-1",
        "service:invented-1 ", "service:invented-1:", "service:invented-12", "other:invented-1",
        "service:invented-1\0", "service\0:invented-1", "sérvice:invented-1",
    ],
)  # fmt: skip
def test_anything_else_is_refused(pair: str) -> None:
    """Whatever is wrong, for the same reason."""
    assert AUTH.refusal(encoded(pair)) is Refusal.PASSWORD_WRONG


@pytest.mark.parametrize("text", [b"!", b"c2Vy dmljZQ==", b"c2VydmljZQ", b"\xff", b"====", b"a"])
def test_what_is_no_base64_is_refused(text: bytes) -> None:
    """Neither blanks nor other alphabets nor missing padding pass."""
    assert AUTH.refusal(text) is Refusal.AUTHORIZATION_UNREADABLE


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_both_encodings_of_a_password_are_accepted(encoding: str) -> None:
    """Nobody says which one the service uses."""
    auth = CallbackBasicAuth("müller", "gemäß")
    assert auth.refusal(encoded("müller:gemäß", encoding)) is None


@given(st.text(max_size=40), st.text(max_size=40))
def test_only_equal_pairs_pass(name: str, password: str) -> None:
    """No text is taken for another."""
    pair = f"{name}:{password}"
    refusal = AUTH.refusal(base64.b64encode(pair.encode("utf-8", "surrogatepass")))
    is_known = pair in ("service:invented-1", "service:invented-2")
    assert refusal is (None if is_known else Refusal.PASSWORD_WRONG)


@given(st.binary(max_size=200))
def test_no_bytes_raise(text: bytes) -> None:
    """A header from anybody becomes a refusal."""
    assert isinstance(AUTH.refusal(text), Refusal)


@pytest.mark.parametrize(
    ("username", "password", "also"),
    [
        ("", "p", ()), ("u", "", ()), ("u:v", "p", ()), ("u", "p\n", ()), ("u", Secret(""), ()),
        ("u", "p", 7), ("u", "p", [("u", "q")]), ("u", None, ()),
    ],
)  # fmt: skip
def test_empty_and_unsendable_credentials_are_refused(
    username: str, password: str, also: object
) -> None:
    """An endpoint with an empty password would be open."""
    with pytest.raises(ConfigurationError):
        CallbackBasicAuth(username, password, also=also)  # type: ignore[arg-type]


def test_passwords_are_not_shown() -> None:
    """Neither by its repr nor by the frames of an error."""
    assert "invented" not in repr(AUTH)
    with pytest.raises(ConfigurationError) as caught:
        CallbackBasicAuth("service:", "invented-3")
    ours = package_frames(caught.value)
    assert ours
    assert not any("invented-3" in str(frame.locals) for frame in ours)
