"""Ids of applications as arguments, ``-`` among them; knows not who reads standard input."""

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import ArgumentCollection, Parameter, Token, UnknownOptionError

from .id_lines import STANDARD_INPUT


def _id(_: Any, tokens: Sequence[Token]) -> str:
    # Since a hyphen alone is an argument here, options that nobody knows come along.
    (token,) = tokens
    if token.value.startswith("-") and token.value != STANDARD_INPUT:
        raise UnknownOptionError(token=token, argument_collection=ArgumentCollection())  # type: ignore[no-untyped-call]
    return token.value


_PARAMETER = Parameter(
    name="APPLICATION_ID", allow_leading_hyphen=True, converter=_id, n_tokens=1, accepts_keys=False
)
IdArgument = Annotated[str, _PARAMETER]
"""One of several ids, or a hyphen for those on standard input."""
