"""What a service was asked, as a test looks at it; shows no address's query that is signed."""

from collections.abc import Iterable, Sequence
from typing import Final, Self, overload

from income_client import ConfigurationError
from income_client.emulator import RecordedRequest
from income_client.emulator.api import Call
from income_client.emulator.rules import meant

_NAMES: Final = tuple(call.value for call in Call)
_SHOWN: Final = 40


class RequestCount(int):
    """A number of requests that remembers which ones, for when a comparison of it fails."""

    requests: "Requests"

    def __new__(cls, requests: "Requests") -> Self:
        """Count requests."""
        made = super().__new__(cls, len(requests))
        made.requests = requests
        return made


class Requests(Sequence[RecordedRequest]):
    """Requests in order of arrival, as they were when this was made.

    Args:
        requests: what was asked.
    """

    def __init__(self, requests: Iterable[RecordedRequest] = ()) -> None:
        self._requests = tuple(requests)

    def __len__(self) -> int:
        return len(self._requests)

    @overload
    def __getitem__(self, place: int) -> RecordedRequest: ...

    @overload
    def __getitem__(self, place: slice) -> "Requests": ...

    def __getitem__(self, place: int | slice) -> "RecordedRequest | Requests":
        if isinstance(place, slice):
            return Requests(self._requests[place])
        return self._requests[place]

    def of(self, call: str, application_id: str | None = None) -> "Requests":
        """Return those of one kind of call.

        Args:
            call: list_applications, get_application, get_documents, token, file, index,
                control or unknown.
            application_id: only those about this application.

        Raises:
            ConfigurationError: there is no such call.
        """
        if call not in _NAMES:
            raise ConfigurationError(f"there is no call {call}{meant(call, _NAMES)}")
        return Requests(
            request
            for request in self._requests
            if request.name == call
            and (application_id is None or application_id in request.path.split("/"))
        )

    def count(self, call: str, application_id: str | None = None) -> RequestCount:
        """Return how many there are of one kind of call.

        Args:
            call: its name, as in `of`.
            application_id: only those about this application; all of them by default.
        """
        return RequestCount(self.of(call, application_id))

    @property
    def failed(self) -> "Requests":
        """Those that got no reply, or one that tells of a failure."""
        return Requests(each for each in self if each.status == 0 or each.status >= 400)  # noqa: PLR2004 - where failures begin

    def __repr__(self) -> str:
        shown = (f"{each.name} {each.status or each.fault}" for each in self[:_SHOWN])
        return f"<{len(self)} requests: {', '.join(shown)}>"

    def table(self) -> str:
        """Return one line for each of the latest requests, for people to read."""
        left_out = max(0, len(self) - _SHOWN)
        lines = [f"({left_out} earlier ones)"] if left_out else []
        lines += [_line(number, self[number]) for number in range(left_out, len(self))]
        return "\n".join(lines or ["nothing was asked"])


def _line(number: int, request: RecordedRequest) -> str:
    is_signed = request.name == Call.FILE.value
    query = f"?{request.query}" if request.query and not is_signed else ""
    fault = f"  (fault: {request.fault})" if request.fault else ""
    status = request.status or "---"
    return f"{number + 1:4}  {status}  {request.method} {request.path}{query}{fault}"
