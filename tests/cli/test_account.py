"""What several places say of an account: which wins, and what no secret is sent to."""

import pytest
from attrs import asdict
from hypothesis import given
from hypothesis import strategies as st

from income_client import BasicAuth, OAuth2ClientCredentials, Secret
from income_client.cli.accounts.account import KEYS, Account, credentials, missing_secret

FILE = "the file"
PLACE = {"base_url": "https://income.example"}
OAUTH2 = {"client_id": "id", "client_secret": "invented"}
BASIC = {"username": "user", "password": "invented"}
ADDRESSES = ("https://income.example", "https://income.example/", "https://other.example")

said = st.fixed_dictionaries(
    {},
    optional={
        key: st.sampled_from(ADDRESSES if key.endswith("url") else ("", "one", "two"))
        for key in KEYS
    },
)


def plain(account: Account) -> dict[str, object]:
    """Return what is said, secrets as texts."""
    fields = asdict(account, recurse=False)
    return {
        key: value.reveal() if isinstance(value, Secret) else value
        for key, value in fields.items()
        if value is not None
    }


@given(above=said, below=said)
def test_what_is_above_wins(above: dict[str, str], below: dict[str, str]) -> None:
    """Whatever the upper place says holds, and the rest comes from the lower one or nowhere."""
    together = plain(Account.of(above).over(Account.of(below)))
    stated = {key: text for key, text in above.items() if text}
    assert stated.items() <= together.items()
    assert together.items() <= ({**below, **stated}).items()


@given(above=said, below=said)
def test_a_secret_goes_only_where_it_was_meant_to_go(
    above: dict[str, str], below: dict[str, str]
) -> None:
    """One of the lower place is kept for no other address, name or kind than stands beside it."""
    upper = Account.of(above)
    together = upper.over(Account.of(below))
    for name, secret, other in (
        ("client_id", "client_secret", ("username", "password")),
        ("username", "password", ("client_id", "client_secret")),
    ):
        if getattr(together, secret) is None or above.get(secret):
            continue
        assert not upper.is_elsewhere(Account.of(below))
        if below.get(name):
            assert getattr(together, name) == below[name]
        assert above.get(name) or not any(above.get(key) for key in other)


def test_the_way_out_is_the_same_to_every_address() -> None:
    """Another address takes over neither credentials nor names, but proxy and authority."""
    way = {"proxy": "http://proxy.example", "ca_file": "/ca.pem"}
    upper = {"base_url": "https://other.example"}
    together = Account.of(upper).over(Account.of(PLACE | OAUTH2 | way))
    assert plain(together) == upper | way
    own = Account.of(upper | {"ca_file": "/own.pem"}).over(Account.of(PLACE | way))
    assert plain(own) == upper | way | {"ca_file": "/own.pem"}


@pytest.mark.parametrize(
    ("said_of_it", "auth"),
    [
        (PLACE | OAUTH2, OAuth2ClientCredentials("id", "invented")),
        (PLACE | BASIC, BasicAuth("user", "invented")),
        (PLACE | BASIC | {"client_id": "", "client_secret": ""}, BasicAuth("user", "invented")),
    ],
)
def test_either_kind_of_credentials_will_do(said_of_it: dict[str, str], auth: object) -> None:
    """What is empty counts as not said."""
    account = Account.of(said_of_it)
    assert credentials(account, FILE) == auth
    assert account.is_whole
    assert missing_secret(account) is None


@pytest.mark.parametrize(
    ("said_of_it", "message"),
    [
        ({}, "set INCOME_BASE_URL, or base_url in the file"),
        (OAUTH2, "set INCOME_BASE_URL, or base_url in the file"),
        (
            PLACE,
            (
                "set either INCOME_CLIENT_ID and INCOME_CLIENT_SECRET, or INCOME_USERNAME and "
                "INCOME_PASSWORD; or in the file either client_id and client_secret, or username "
                "and password"
            ),
        ),
        (PLACE | {"client_id": "id"}, "set INCOME_CLIENT_SECRET, or client_secret in the file"),
        (PLACE | {"password": "invented"}, "set INCOME_USERNAME, or username in the file"),
    ],
)
def test_what_is_missing_is_named(said_of_it: dict[str, str], message: str) -> None:
    """The message names the variable and the key of the file."""
    account = Account.of(said_of_it)
    assert credentials(account, FILE) == message
    assert not account.is_whole


def test_both_kinds_are_one_too_many() -> None:
    """Nobody can say which of the two is meant."""
    fault = credentials(Account.of(PLACE | BASIC | OAUTH2), FILE)
    assert isinstance(fault, str)
    assert fault.startswith("set either INCOME_CLIENT_ID")


@pytest.mark.parametrize(
    ("said_of_it", "words"),
    [
        (PLACE | {"client_id": "id"}, "client secret"),
        (PLACE | {"username": "user"}, "password"),
        ({"username": "user"}, None),
        (PLACE | {"username": "user", "client_id": "id"}, None),
        (PLACE, None),
    ],
)
def test_only_a_secret_is_asked_for(said_of_it: dict[str, str], words: str | None) -> None:
    """A question is worth it where nothing but the secret is missing."""
    pair = missing_secret(Account.of({**said_of_it}))
    assert (pair and pair.words) == words


def test_a_name_alone_is_no_reason_to_ask_without_an_address() -> None:
    """Where the address is missing too, the answer would be for nothing."""
    assert missing_secret(Account.of({"client_id": "id"})) is None


def test_no_secret_is_shown() -> None:
    """Neither the secret nor an address, which may hold one by mistake, is in the repr."""
    account = Account.of(
        {"base_url": "https://u:canary@x.example", "client_id": "i", "client_secret": "canary"}
    )
    assert "canary" not in repr(account)


def test_a_credential_that_cannot_be_sent_is_told() -> None:
    """What is wrong with it is said without showing it."""
    fault = credentials(Account.of(PLACE | {"username": "u", "password": "canary\n"}), FILE)
    assert fault == "password holds a character that a Basic credential cannot carry"
