"""How ``income-client listen`` checks callbacks, from its options and the environment."""

import secrets
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

from income_client import (
    BasicAuth,
    CallbackBasicAuth,
    CallbackBearerAuth,
    CallbackClientCertificate,
    CallbackSourceNetworks,
    CallbackTokenIssuer,
    ConfigurationError,
    OAuth2ClientCredentials,
)
from income_client.cli.options import MisuseError

from .options import Credentials

_USERNAME: Final = "callbacks"
_SECRET_BYTES: Final = 24

Check = CallbackBasicAuth | CallbackBearerAuth | CallbackClientCertificate | CallbackSourceNetworks


@frozen(kw_only=True)
class CallbackChecks:
    """What callbacks must show."""

    basic: BasicAuth | None
    """User name and password."""
    oauth2: OAuth2ClientCredentials | None
    """Client that buys tokens."""
    issuer: CallbackTokenIssuer | None
    """Who sells them."""
    networks: tuple[str, ...]
    """Where callbacks may come from; none means anywhere."""
    certificate: CallbackClientCertificate | None
    """Whose certificate they must come with, if any."""

    @property
    def has_identity(self) -> bool:
        """Whether anything tells who sends them."""
        return not (self.basic is None and self.issuer is None and self.certificate is None)

    def checks(self) -> Iterator[Check]:
        """Yield them as a receiver takes them."""
        if self.basic is not None:
            yield CallbackBasicAuth(self.basic.username, self.basic.password)
        if self.issuer is not None:
            yield self.issuer.auth
        if self.networks:
            yield CallbackSourceNetworks(self.networks)
        if self.certificate is not None:
            yield self.certificate


def callback_checks(
    credentials: Credentials,
    *,
    networks: Sequence[str],
    has_client_ca: bool,
    subject: Sequence[str],
    san: Sequence[str],
) -> CallbackChecks:
    """Return what callbacks must show.

    Args:
        credentials: those of the environment.
        networks: where they may come from.
        has_client_ca: whether certificates are asked for.
        subject: subjects of certificates; with ``san``, any of them will do.
        san: alternative names of certificates; none of either: every one of the authority.

    Raises:
        MisuseError: an option or a variable cannot be meant.
    """
    oauth2 = credentials.oauth2
    certificate = issuer = None
    is_pinned = bool(subject or san)
    try:
        if has_client_ca:
            certificate = CallbackClientCertificate(
                subject=subject or None, san=san, any_from_ca=not is_pinned
            )
        if oauth2 is not None:
            issuer = CallbackTokenIssuer(oauth2.client_id, oauth2.client_secret)
    except ConfigurationError as error:
        fault = error.message
    else:
        return CallbackChecks(
            basic=credentials.basic,
            oauth2=oauth2,
            issuer=issuer,
            networks=tuple(networks),
            certificate=certificate,
        )
    raise MisuseError(fault)


def made_up() -> BasicAuth:
    """Return a user name and a password for this once."""
    return BasicAuth(_USERNAME, secrets.token_urlsafe(_SECRET_BYTES))
