"""The calls that are one request each; knows the endpoints and nothing of walking them."""

from datetime import date, datetime, timedelta, tzinfo
from functools import partial
from typing import Final

from income_client.http.replies import read_about, read_found, read_reply
from income_client.http.session import SessionManager
from income_client.polling.salvage import read_page
from income_client.walk.paginator import ask_page, ask_present
from income_client.wire.times import LAST_SECOND, Rounding, service_second, wire_bound

from .errors import ConfigurationError, InvalidRequestError
from .http import endpoints
from .records.applications import Application, ApplicationPage, ApplicationSummary
from .records.documents import ApplicationDocuments
from .records.window import EPOCH

When = datetime | date | str
"""A time: aware, or naive and then in the service's zone; a day; or the ISO text of either."""

_BACKWARDS: Final = "updated_after is later than updated_before"
_YEAR: Final = timedelta(days=366)
_YEAR_BEFORE_THE_END: Final = EPOCH + timedelta(seconds=LAST_SECOND) - _YEAR


class ServiceCalls:
    """One method for each thing that one request reads.

    Args:
        session: makes the requests.
        zone: the zone of the service's times that carry none.
    """

    def __init__(self, session: SessionManager, zone: tzinfo) -> None:
        self._session = session
        self._zone = zone

    async def get_application_page(
        self,
        updated_after: When | None = None,
        updated_before: When | None = None,
        limit: int | None = None,
        application_reference_id: str | None = None,
    ) -> ApplicationPage:
        """Read one page of the list, just as the service gives it (contract section 4.1).

        A page with ``limit`` rows may hide others; ``list_applications`` finds them all.

        Args:
            updated_after: lower bound, as for ``list_applications``; None leaves it to the
                service.
            updated_before: upper bound, likewise.
            limit: most rows, 1 to 1000; None leaves it to the service, which takes 25.
            application_reference_id: the partner's own reference.

        Raises:
            ConfigurationError: an argument cannot be meant; nothing was sent.
            IncomeClientError: the request failed for good.
        """
        after = self._bound(updated_after, Rounding.DOWN)
        before = self._bound(updated_before, Rounding.UP)
        if after is not None and before is not None and after > before:
            raise ConfigurationError(_BACKWARDS)
        request = endpoints.list_applications(
            updated_after=after,
            updated_before=before,
            limit=limit,
            application_reference_id=application_reference_id,
        )
        return await self._session.call(request, partial(read_reply, ApplicationPage, request))

    async def get_application(self, application_id: str) -> Application:
        """Read one application with its income calculations (contract section 4.2).

        Args:
            application_id: as returned when the application was registered.

        Raises:
            ConfigurationError: the id cannot be one; nothing was sent.
            NotFoundError: the service knows no such application.
            UnexpectedResponseError: the reply is about another application.
            IncomeClientError: the request failed for good.
        """
        request = endpoints.get_application(application_id)
        return await self._session.call(request, partial(read_about, Application, request))

    async def get_documents(self, application_id: str, pages: bool = False) -> ApplicationDocuments:
        """Read the documents of one application (contract section 4.3).

        Args:
            application_id: as returned when the application was registered.
            pages: whether each document comes with its pages block.

        Raises:
            ConfigurationError: the id cannot be one; nothing was sent.
            NotFoundError: the service knows no such application.
            UnexpectedResponseError: the reply is about another application.
            IncomeClientError: the request failed for good.
        """
        request = endpoints.get_documents(application_id, pages)
        read = partial(read_about, ApplicationDocuments, request)
        return await self._session.call(request, read)

    async def find_application(self, application_reference_id: str) -> ApplicationSummary | None:
        """Find the application with a reference of the partner's (contract section 4.1).

        Takes one request, and up to three where the first finds nothing: bounds
        left to the service may hide what is old, or updated this very second.

        Args:
            application_reference_id: the partner's own reference, unique per application.

        Returns:
            Its summary, None where the service lists none.

        Raises:
            ConfigurationError: the reference cannot be one; nothing was sent.
            UnexpectedResponseError: the service lists only applications with other
                references, or several with this one.
            IncomeClientError: the request failed for good.
        """
        reference = application_reference_id
        if reference is None:
            raise ConfigurationError("application_reference_id is None")
        page = await self._listed(reference)
        if not page.applications:
            # What is old may be hidden,
            page = await self._listed(reference, EPOCH)
        if not page.applications:
            # and what was updated this very second.
            future = min(page.updated_before, _YEAR_BEFORE_THE_END) + _YEAR
            try:
                page = await self._listed(reference, EPOCH, future)
            except InvalidRequestError:
                return None
        same = (row for row in page.applications if row.application_reference_id == reference)
        return next(same, None)

    async def service_time(self) -> datetime:
        """Return the present as the service tells it, for spans such as the last seven days.

        Takes one request as a rule: the upper bound that the service applies where none is
        given. Where that lies long before its `Date`, or there is no `Date`, it may be the end
        of a window that was cut short, and a few more requests find the present.

        Returns:
            The time without zone, in whole seconds of ``service_timezone``.

        Raises:
            UnexpectedResponseError: the service tells no time.
            IncomeClientError: a request failed for good.
        """
        ask = partial(ask_page, self._session, 1, self._zone, read=read_page)
        return EPOCH + timedelta(seconds=(await ask_present(ask)).present)

    async def _listed(
        self, reference: str, after: datetime | None = None, before: datetime | None = None
    ) -> ApplicationPage:
        request = endpoints.list_applications(
            updated_after=self._bound(after, Rounding.DOWN),
            updated_before=self._bound(before, Rounding.UP),
            application_reference_id=reference,
        )
        return await self._session.call(request, partial(read_found, reference, request))

    def _bound(self, value: When | None, rounding: Rounding) -> str | None:
        return None if value is None else wire_bound(value, self._zone, rounding=rounding)

    def _second(self, value: When | None, rounding: Rounding) -> int | None:
        return None if value is None else service_second(value, self._zone, rounding=rounding)

    def _span(
        self, updated_after: When | None, updated_before: When | None
    ) -> tuple[int | None, int | None]:
        after = self._second(updated_after, Rounding.DOWN)
        before = self._second(updated_before, Rounding.UP)
        if after is not None and before is not None and after > before:
            raise ConfigurationError(_BACKWARDS)
        return after, before
