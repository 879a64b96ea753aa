"""What a test may know of the emulated service, and do to it by hand; knows no socket."""

from income_client.settings import BasicAuth, DownloadPolicy, OAuth2ClientCredentials

from .files import StoredFile
from .rules import ServiceRules
from .service import Service
from .service_time import ServiceTime
from .world import World


class ServiceControls:
    """Everything about a service but its sockets.

    Args:
        service: what is controlled.
        time: its clock on the wall.

    Attributes:
        world: the applications.
    """

    def __init__(self, service: Service, time: ServiceTime) -> None:
        self.world: World = service.world
        self._service = service
        self._time = time

    @property
    def oauth2(self) -> OAuth2ClientCredentials:
        """The invented client id and secret that buy tokens here."""
        return self._service.oauth2

    @property
    def basic(self) -> BasicAuth:
        """The invented user name and password that are accepted here."""
        return self._service.basic

    @property
    def rules(self) -> ServiceRules:
        """How the service behaves; may be replaced at any time."""
        return self.world.rules

    @rules.setter
    def rules(self, rules: ServiceRules) -> None:
        self.world.rules = rules

    @property
    def now(self) -> int:
        """The present service second."""
        self._keep_time()
        return self.world.now

    def advance(self, seconds: float) -> None:
        """Move service time forward; tokens and addresses expire by it.

        Args:
            seconds: how far; fractions add up.

        Raises:
            ConfigurationError: that would be backward.
        """
        self._time.advance(seconds)
        self._keep_time()

    def touch(self, application_id: str) -> int:
        """Update an application now: an amount changes, and its place in the list.

        Args:
            application_id: which one.

        Returns:
            The service second of the update.

        Raises:
            ConfigurationError: there is no such application.
        """
        self._keep_time()
        return self.world.touch(application_id)

    @property
    def download_policy(self) -> DownloadPolicy:
        """What lets a client read files from here, in every region, and from nowhere else."""
        return self._service.storage.policy()

    def file_of(self, document_id: str) -> StoredFile:
        """Return what a document's file is now: content, media type and entity tag.

        Args:
            document_id: whose.

        Raises:
            ConfigurationError: there is no such document.
        """
        return self._service.storage.file_of(document_id)

    def content_of(self, document_id: str) -> bytes:
        """Return the bytes of a document's file as they are now.

        Args:
            document_id: whose.

        Raises:
            ConfigurationError: there is no such document.
        """
        return self.file_of(document_id).content

    def replace_file(self, document_id: str) -> None:
        """Put another file in the place of a document's; addresses given out stay good.

        Args:
            document_id: whose.

        Raises:
            ConfigurationError: there is no such document.
        """
        self._service.storage.replace(document_id)

    def revoke_tokens(self) -> None:
        """Refuse every access token sold so far with 401."""
        self._service.mint.revoke_all()

    def _keep_time(self) -> None:
        self.world.advance_to(self._time.now())
