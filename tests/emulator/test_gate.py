"""Who may ask: credentials, tokens and Host headers, without a socket."""

import msgspec
import pytest

from income_client.emulator import HttpRequest
from income_client.emulator.api import respond
from tests.support.emulated_replies import a_service, ask, buy_token, token_request


def test_missing_credentials() -> None:
    """A request without credentials, or with two of them, is answered with 401."""
    service = a_service(100)
    good = service.basic.authorization().reveal()
    for header in ("", "Basic", "Digest x", f"{good}, {good}", "Basic \udcff"):
        reply = ask(service, authorization=header)
        assert reply.status == 401
        assert "WWW-Authenticate" in reply.headers


def test_bearer() -> None:
    """A bought token opens the API whatever the case of its scheme; a forged one is invalid."""
    service = a_service(100)
    token = buy_token(service)
    assert ask(service, authorization=f"Bearer {token}").status == 200
    assert ask(service, authorization=f"bearer {token}").status == 200
    for bad in ("", "x", token[:-2], f"{token}x", "a.b.c", "é", token.replace(".", "..", 1)):
        reply = ask(service, authorization=f"Bearer {bad}")
        assert reply.status == 401
        assert reply.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'


def test_tokens_expire() -> None:
    """A token is good until its last second and not after it."""
    service = a_service(100, token_lifetime=60)
    token = f"Bearer {buy_token(service)}"
    service.world.advance_to(1059)
    assert ask(service, authorization=token).status == 200
    service.world.advance_to(1060)
    assert ask(service, authorization=token).status == 401
    assert ask(service, authorization=f"Bearer {buy_token(service)}").status == 200


def test_revoked_tokens() -> None:
    """A revoked token is invalid, and one bought afterwards is good."""
    service = a_service(100)
    token = f"Bearer {buy_token(service)}"
    service.tokens.revoke_all()
    assert ask(service, authorization=token).status == 401
    assert ask(service, authorization=f"Bearer {buy_token(service)}").status == 200


def test_token_reply() -> None:
    """The token reply holds token, type and lifetime, and may not be stored."""
    service = a_service(100)
    reply = respond(service, token_request(service))
    content = msgspec.json.decode(reply.body)
    assert set(content) == {"access_token", "token_type", "expires_in"}
    assert (content["token_type"], content["expires_in"]) == ("Bearer", 3600)
    assert content["access_token"].count(".") == 2
    assert reply.headers["Cache-Control"] == "no-store"


def test_bad_token_requests() -> None:
    """Wrong forms and grants are answered with 400, wrong credentials with 401."""
    service = a_service(100)

    def outcome(request: HttpRequest) -> tuple[int, str]:
        reply = respond(service, request)
        return reply.status, msgspec.json.decode(reply.body)["error"]

    json_type = {"content-type": "application/json"}
    api_user = {"authorization": service.basic.authorization().reveal()}
    assert outcome(token_request(service, b"")) == (400, "invalid_request")
    assert outcome(token_request(service, b"\xff")) == (400, "invalid_request")
    assert outcome(token_request(service, **json_type)) == (400, "invalid_request")
    assert outcome(token_request(service, b"grant_type=password")) == (
        400,
        "unsupported_grant_type",
    )
    assert outcome(token_request(service, authorization="")) == (401, "invalid_client")
    assert outcome(token_request(service, **api_user)) == (401, "invalid_client")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:80", 200),
        ("localhost", 200),
        ("api.localhost:8080", 200),
        ("[::1]:80", 200),
        ("example.com", 421),
        ("localhost.example.com", 421),
        ("10.0.0.1", 421),
        ("", 421),
        ("[", 421),
    ],
)
def test_foreign_hosts(host: str, status: int) -> None:
    """A request for a host that is not this machine is refused."""
    assert ask(a_service(100), host=host).status == status


def test_credentials_do_not_show() -> None:
    """The repr of a request holds neither its headers nor its form."""
    service = a_service()
    assert "Basic" not in repr(token_request(service))
