"""``income-client get``: prints what the service has and no other command reads."""

from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from income_client import ConfigurationError

from .connection import Connection, connect
from .exit_status import ExitStatus
from .output import OutputLines, inert

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


async def get(
    path: Annotated[str, Parameter(name="PATH")],
    /,
    *,
    param: Annotated[
        tuple[str, ...], Parameter(negative=(), show_default=False, metavar="NAME=VALUE")
    ] = (),
    connection: Connection | None = None,
) -> int:
    """Print the JSON of any path of the service.

    For what the service has and no other command reads. The reply is printed as it
    came, on one line: with personal data, and with the signed addresses of files,
    which anybody can use.

    Example: income-client get /v1/income/applications --param limit=1

    Args:
        path: Path below the address of the service, percent-encoded.
        param: Parameter of the query. May be repeated, also with the same name.
        connection: The service.
    """
    params = _read_params(param)
    async with connect(connection) as client:
        try:
            reply = await client.get_json(path, params)
        except ConfigurationError as error:
            argument = {"path": "PATH", "params": "--param"}.get(error.argument or "")
            if argument is None:
                raise
            raise ConfigurationError(f"{argument} {error.detail}") from None
    OutputLines().write(inert(_ENCODER.encode(reply)))
    return ExitStatus.DONE


def _read_params(pairs: tuple[str, ...]) -> dict[str, list[str]]:
    params: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise ConfigurationError("--param must be NAME=VALUE")
        params.setdefault(name, []).append(value)
    return params
