"""``income-client listen`` beside a test, and callbacks to it from an emulator in the test."""

import asyncio
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from attrs import field, frozen

from income_client import BasicAuth, OAuth2ClientCredentials
from income_client.emulator import CallbackTarget
from tests.cli.entry import start

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
_TAKEN_AT: Final = re.compile(r"income-client: callbacks are taken at (\S+)\n")


@frozen
class Listening:
    """The command while it listens."""

    process: "subprocess.Popen[str]"
    """It."""
    url: str
    """Where callbacks go."""
    told: list[str] = field(factory=list)
    """What it said before and after that."""

    def target(self, **options: Any) -> CallbackTarget:
        """Return what leads an emulator to it, with Basic credentials and without pauses."""
        usual: dict[str, Any] = {"auth": BASIC, "pauses": ()}
        return CallbackTarget(self.url, **usual | options)

    @property
    def token_url(self) -> str:
        """Where tokens are sold."""
        return self.url.removesuffix("/callbacks") + "/token"

    async def read_line(self) -> Any:
        """Read the next line that it writes."""
        assert self.process.stdout is not None
        return json.loads(await asyncio.to_thread(self.process.stdout.readline))

    def exported(self) -> dict[str, str]:
        """Read the variables that it prints after its address, as a shell would."""
        assert self.process.stderr is not None
        lines = [self.process.stderr.readline() for _ in range(4)]
        assert lines[0].startswith("# ")
        assert self.url in lines[3]
        pairs = [shlex.split(line)[1].partition("=") for line in lines[1:3]]
        return {name: value for name, _, value in pairs}


@contextmanager
def listening(*arguments: str, **options: Any) -> Iterator[Listening]:
    """Run the command beside what happens inside; nothing of it is left afterwards."""
    process = start("listen", "--port", "0", *arguments, **options)
    assert process.stderr is not None
    told = []
    try:
        while True:
            line = process.stderr.readline()
            told.append(line)
            found = _TAKEN_AT.fullmatch(line)
            if found is not None:
                yield Listening(process, found[1], told)
                return
            assert line, told
    finally:
        process.kill()
        process.communicate()


@contextmanager
def appending(path: Path) -> Iterator[IO[bytes]]:
    """Open a file as ``>>`` does."""
    with path.open("ab") as file:
        yield file
