"""Who may ask: Host headers, credentials and the token endpoint; knows no application."""

import hmac
import ipaddress
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec
from attrs import frozen

from income_client.settings import BasicAuth, OAuth2ClientCredentials, Secret

from .exchange import HttpReply, HttpRequest
from .tokens import TokenMint

_REALM: Final = 'realm="income emulator"'


def json_reply(status: int, content: Any, **headers: str) -> HttpReply:
    """Return a reply of JSON; underscores in header names stand for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpReply(
        status=status,
        headers={"Content-Type": "application/json", **named},
        body=msgspec.json.encode(content),
    )


def is_loopback(host: str) -> bool:
    """Say whether a host, with or without a port, is this machine and nothing else."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip = ipaddress.ip_address(name)
    except ValueError:
        return False
    # Of an IPv4 address within an IPv6 one, Python says it or not, by its version.
    return ip.is_loopback and getattr(ip, "ipv4_mapped", None) is None


@frozen(kw_only=True)
class Gate:
    """Checks credentials (contract section 5.1); accepts the invented ones only."""

    basic: BasicAuth
    """User of the API."""
    oauth2: OAuth2ClientCredentials
    """Buyer of tokens."""
    mint: TokenMint
    """Maker of tokens."""

    def refusal(self, request: HttpRequest, *, now: int) -> HttpReply | None:
        """Return the 401 for an API request, None if it may pass.

        Args:
            request: the request.
            now: the present service second.
        """
        scheme, credentials = _presented(request)
        match scheme:
            case "basic" if _same(f"Basic {credentials}", self.basic.authorization()):
                return None
            case "basic":
                challenge = f"Basic {_REALM}"
            case "bearer" if self.mint.accepts(credentials, now=now):
                return None
            case "bearer":
                challenge = 'Bearer error="invalid_token"'
            case _:
                challenge = f"Bearer {_REALM}"
        error = {"error": "unauthorized", "message": "credentials are missing or not valid"}
        return json_reply(401, error, WWW_Authenticate=challenge)

    def token_reply(self, request: HttpRequest, *, now: int, lifetime: int) -> HttpReply:
        """Answer a token request.

        Args:
            request: the request.
            now: the present service second.
            lifetime: seconds that a token lives.
        """
        problem = _form_problem(request)
        if problem is not None:
            return json_reply(400, {"error": problem}, Cache_Control="no-store")
        scheme, credentials = _presented(request)
        known = _same(f"Basic {credentials}", self.oauth2.authorization())
        if scheme != "basic" or not known:
            return json_reply(
                401,
                {"error": "invalid_client"},
                WWW_Authenticate=f"Basic {_REALM}",
                Cache_Control="no-store",
            )
        token = self.mint.issue(self.oauth2.client_id, now=now, lifetime=lifetime)
        content = {"access_token": token, "token_type": "Bearer", "expires_in": lifetime}
        return json_reply(200, content, Cache_Control="no-store")


def _presented(request: HttpRequest) -> tuple[str, str]:
    """Return scheme and credentials, between which one blank stands or several (RFC 9110)."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    return scheme.lower(), credentials.lstrip(" ")


def _same(text: str, secret: Secret) -> bool:
    return hmac.compare_digest(text.encode(errors="surrogateescape"), secret.reveal().encode())


def _form_problem(request: HttpRequest) -> str | None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        return "invalid_request"
    try:
        form = parse_qsl(request.body.decode("ascii"), keep_blank_values=True)
    except UnicodeDecodeError:
        return "invalid_request"
    grants = [value for name, value in form if name == "grant_type"]
    if len(grants) != 1:
        return "invalid_request"
    return None if grants == ["client_credentials"] else "unsupported_grant_type"
