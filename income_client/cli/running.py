"""How running commands find each other, and the credentials of callbacks.

A running ``emulate`` or ``listen`` says where it is in a private file, so that the three work
together with nothing set. The file is locked while the command runs; one that is left behind
by a crash is not locked, and counts for nothing.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import msgspec
from attrs import frozen

from income_client import BasicAuth, ConfigurationError, OAuth2ClientCredentials, Secret
from income_client.disk import (
    is_open_to_others,
    is_ours,
    lock_descriptor,
    make_folder,
    new_file,
    open_file,
)

CALLBACK_PREFIX: Final = "INCOME_CALLBACK_"

Announcer = Literal["emulate", "listen"]
_ADDRESSES: Final[Mapping[Announcer, set[str]]] = {
    "emulate": {"url"},
    "listen": {"url", "token_url"},
}
"""What each of them announces besides credentials."""


@frozen(kw_only=True)
class Credentials:
    """A user name with its password, and a client id with its secret; either may be missing."""

    basic: BasicAuth | None = None
    oauth2: OAuth2ClientCredentials | None = None

    def facts(self) -> dict[str, str]:
        """Return them as `credentials_from` reads them."""
        facts: dict[str, str] = {}
        if self.basic is not None:
            facts["USERNAME"] = self.basic.username
            facts["PASSWORD"] = self.basic.password.reveal()
        if self.oauth2 is not None:
            facts["CLIENT_ID"] = self.oauth2.client_id
            facts["CLIENT_SECRET"] = self.oauth2.client_secret.reveal()
        return facts


def credentials_from(variables: Mapping[str, str], prefix: str = "") -> Credentials:
    """Return the credentials in the environment, or in what `Credentials.facts` returned."""
    basic = _read_pair(variables, f"{prefix}USERNAME", f"{prefix}PASSWORD")
    oauth2 = _read_pair(variables, f"{prefix}CLIENT_ID", f"{prefix}CLIENT_SECRET")
    try:
        return Credentials(
            basic=basic and BasicAuth(*basic),
            oauth2=oauth2 and OAuth2ClientCredentials(*oauth2),
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"{prefix}...: {error.message}")


def _read_pair(variables: Mapping[str, str], name: str, secret: str) -> tuple[str, Secret] | None:
    values = [variables.get(name), variables.get(secret)]
    if not any(values):
        return None
    for variable, value in zip((name, secret), values, strict=True):
        if not value:
            raise ConfigurationError(f"{variable} is not set")
    return values[0] or "", Secret(values[1] or "")


@contextmanager
def announced(name: Announcer, facts: Mapping[str, str]) -> Iterator[None]:
    """Let this user's other commands find this one, with these facts, while the block runs."""
    with ExitStack() as stack:
        # It is a convenience, and impossible without a home or on Windows.
        with suppress(OSError, RuntimeError):
            _announce_command(name, facts, stack)
        yield


def _announce_command(name: Announcer, facts: Mapping[str, str], stack: ExitStack) -> None:
    place = _announcement_path(name)
    draft = place.with_name(f".{name}-{os.getpid()}")
    make_folder(place.parent)
    draft.unlink(missing_ok=True)
    descriptor = new_file(draft)
    stack.callback(os.close, descriptor)
    stack.callback(draft.unlink, missing_ok=True)
    if not lock_descriptor(descriptor):
        return
    os.write(descriptor, json.dumps(dict(facts)).encode())
    draft.replace(place)
    stack.callback(_withdraw_announcement, place, os.fstat(descriptor))


def _withdraw_announcement(place: Path, own: os.stat_result) -> None:
    with suppress(OSError):
        if os.path.samestat(place.lstat(), own):
            place.unlink()


def announcement(name: Announcer) -> dict[str, str] | None:
    """Return what the running command of a name has announced; None if there is none.

    Where the folder is another user's, as under ``sudo -E``, so may the file be, and with it
    the address that callbacks or credentials would go to: it counts for nothing then.
    """
    # The file of a killed command is not locked.
    with (
        suppress(OSError, RuntimeError, ValueError),
        os.fdopen(open_file(_announcement_path(name), os.O_RDONLY), "rb") as file,
    ):
        found = os.fstat(file.fileno())
        if not is_ours(found) or is_open_to_others(found) or not stat.S_ISREG(found.st_mode):
            return None
        try:
            lock_descriptor(file.fileno(), is_shared=True)
        except BlockingIOError:
            facts = msgspec.json.decode(file.read(), type=dict[str, str])
            return facts if facts.keys() >= _ADDRESSES[name] else None
    return None


def _announcement_path(name: Announcer) -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) if runtime else Path.home() / ".local" / "state"
    return folder / "income-client" / f"{name}.json"
