"""``income-client listen`` and what a service sends it meanwhile."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from income_client import BasicAuth, OAuth2ClientCredentials
from income_client.emulator import CallbackDelivery, CallbackTarget
from income_client.testing import IncomeService
from tests.support.processes import Ran

from .cli import Cli, Running
from .processes import Process

BASIC: Final = BasicAuth("partner", "invented-password")
OAUTH2: Final = OAuth2ClientCredentials("callback-client", "invented-secret-of-32-characters!")
BASIC_VARIABLES: Final = {
    "INCOME_CALLBACK_USERNAME": BASIC.username,
    "INCOME_CALLBACK_PASSWORD": BASIC.password.reveal(),
}
OAUTH2_VARIABLES: Final = {
    "INCOME_CALLBACK_CLIENT_ID": OAUTH2.client_id,
    "INCOME_CALLBACK_CLIENT_SECRET": OAUTH2.client_secret.reveal(),
}
_ADDRESS: Final = re.compile(r"(https?://\S+)\r?\n")

Talking = Running | Process
"""A command that prints."""


class Listening:
    """The command while it listens at a URL, and a service that sends callbacks there."""

    def __init__(self, running: Talking, service: IncomeService) -> None:
        self.running: Final = running
        self._service = service
        found = _ADDRESS.search(
            running.stderr.wait_until(lambda: bool(_ADDRESS.search(running.stderr.text)))
        )
        assert found is not None
        self.url: Final = found[1]

    def target(self, **options: Any) -> CallbackTarget:
        """Return what leads a service here, with Basic credentials and without pauses."""
        usual: dict[str, Any] = {"auth": BASIC, "pauses": ()}
        return CallbackTarget(self.url, **usual | options)

    def fire(
        self,
        application_id: str | None = None,
        *,
        target: CallbackTarget | None = None,
        **options: Any,
    ) -> CallbackDelivery:
        """Have the service send a callback, and return what became of it."""
        fired = self._service.fire_callback(
            application_id, target=target or self.target(), **options
        )
        return asyncio.run(fired)

    def lines(self, count: int) -> list[Any]:
        """Return the lines that were written, once there are so many."""
        return [json.loads(line) for line in self.running.stdout.wait_for_lines(count)]


class Listen:
    """Runs the command beside a service that sends callbacks."""

    def __init__(self, cli: Cli, service: IncomeService) -> None:
        self._cli = cli
        self._service = service

    def __call__(
        self,
        visit: Callable[["Listening"], object],
        *arguments: str,
        env: Mapping[str, str] = BASIC_VARIABLES,
        **options: Any,
    ) -> Ran:
        """Run it beside a visit, and end it by SIGTERM unless the visit did."""

        def during(running: Running) -> None:
            visit(Listening(running, self._service))
            if not running.has_ended:
                running.terminate()

        return self._cli("listen", "--port", "0", *arguments, env=env, during=during, **options)

    def attempts(
        self,
        *arguments: str,
        target: Callable[["Listening"], CallbackTarget] = Listening.target,
        env: Mapping[str, str] = BASIC_VARIABLES,
        **fired: Any,
    ) -> tuple[int | str, ...]:
        """Run it for one callback, and return what its attempts were answered with."""
        deliveries: list[CallbackDelivery] = []
        self(lambda it: deliveries.append(it.fire(target=target(it), **fired)), *arguments, env=env)
        return deliveries[0].attempts
