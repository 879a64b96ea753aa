"""The calls that get document files; makes jobs of what is meant and fetches none itself."""

import asyncio
import os
from datetime import tzinfo
from typing import Final, Literal, overload

from income_client.downloads.downloader import (
    Destination,
    Downloader,
    FileJob,
    FolderOrStore,
    OnProgress,
    ProgressError,
    place_of,
)
from income_client.downloads.many import (
    Documents,
    DownloadFailure,
    Downloads,
    Get,
    Meant,
    OneDocument,
    meant_by,
)
from income_client.downloads.naming import DEFAULT_TEMPLATE, FileFacts, NameTemplate
from income_client.downloads.object_store import is_store
from income_client.downloads.part_file import FoldersSeen
from income_client.http.session import SessionManager

from .checks import is_plain_function
from .clock import Clock
from .errors import ConfigurationError, IncomeClientError
from .fetching import OnError
from .records.files import DownloadedFile
from .streams import ServiceStreams

_SAMPLE: Final = FileFacts(
    application_id="a", document_type="t", document_id="d", file=0, file_reference_id="r"
)


class DocumentFiles(ServiceStreams):
    """The methods that download.

    Args:
        session: reads documents again whose addresses have expired.
        zone: the zone of the service's times that carry none.
        clock: what walks and polls pause by.
        downloader: gets files.
    """

    def __init__(
        self, session: SessionManager, zone: tzinfo, clock: Clock, downloader: Downloader
    ) -> None:
        super().__init__(session, zone, clock)
        self._downloader = downloader

    async def download(
        self,
        document: OneDocument,
        destination: Destination,
        file: int = 0,
        *,
        names: str = DEFAULT_TEMPLATE,
        overwrite: bool = False,
        keep_partial: bool = False,
        on_progress: OnProgress | None = None,
    ) -> DownloadedFile:
        """Have the file of a document where it is to go, whole (contract section 2.3).

        The address is used only where `DownloadPolicy` allows it, nothing but the
        request for the file goes along, a cut connection goes on where it was, and
        an address that has expired is replaced by asking for the documents again.

        Args:
            document: what the service said of it.
            destination: a folder that exists or a path that ends with a slash, in which
                ``names`` says where; another path, which becomes the file; an open binary
                file; or a store of obstore.
            file: which of the document's files; the contract gives it one, number 0.
            names: what files are called in a folder or a store. Fields: application_id,
                document_type, document_id, file, file_reference_id and ext.
            overwrite: whether another file in its place is replaced, at once and whole.
            keep_partial: whether what came of the file is kept beside its place for the
                next call, if it does not come whole; else nothing is left.
            on_progress: called with a `DownloadProgress` now and then.

        Returns:
            What is there now. The very same file that is there already is left alone.

        Raises:
            ConfigurationError: an argument cannot be meant.
            UnsafeLinkError: the address leads where it may not; nothing was sent there.
            DownloadError: it did not come whole, another file is in its place, or it
                could not be written.
            IncomeClientError: the documents could not be read again.
        """
        meant = meant_by(document, file)
        if len(meant) != 1 or not isinstance(document, OneDocument):
            raise ConfigurationError("document is one Document; download_all takes many")
        get = self._getter(
            destination,
            names,
            overwrite=overwrite,
            keep_partial=keep_partial,
            on_progress=on_progress,
        )
        try:
            outcome = await get(meant[0])
        except asyncio.CancelledError as cancelled:
            # Its frames hold what was on its way.
            raise cancelled.with_traceback(None) from None
        if not isinstance(outcome, IncomeClientError):
            return outcome
        failure = outcome.raised if isinstance(outcome, ProgressError) else outcome
        del meant, get  # which know the file's name and address
        try:
            raise failure
        finally:
            del outcome, failure

    @overload
    def download_all(
        self,
        documents: Documents,
        directory: FolderOrStore,
        concurrency: int = ...,
        *,
        names: str = ...,
        overwrite: bool = ...,
        keep_partial: bool = ...,
        on_progress: OnProgress | None = ...,
        on_error: Literal["raise"] = ...,
    ) -> Downloads[DownloadedFile]: ...

    @overload
    def download_all(
        self,
        documents: Documents,
        directory: FolderOrStore,
        concurrency: int = ...,
        *,
        names: str = ...,
        overwrite: bool = ...,
        keep_partial: bool = ...,
        on_progress: OnProgress | None = ...,
        on_error: Literal["yield"],
    ) -> Downloads[DownloadedFile | DownloadFailure]: ...

    def download_all(
        self,
        documents: Documents,
        directory: FolderOrStore,
        concurrency: int = 8,
        *,
        names: str = DEFAULT_TEMPLATE,
        overwrite: bool = False,
        keep_partial: bool = False,
        on_progress: OnProgress | None = None,
        on_error: OnError = "raise",
    ) -> Downloads[DownloadedFile] | Downloads[DownloadedFile | DownloadFailure]:
        """Have the files of many documents in one folder or store (contract section 2.3).

        Each file is yielded once it is whole, in no special order; what is there
        already is yielded too. Addresses that have expired are replaced by about one
        request a minute for each application, which all downloads of the client share.

        Args:
            documents: documents, replies of `get_documents` or records with documents;
                one, or an iterable of them, asynchronous or not.
            directory: a folder, made if it is not there, or a store of obstore.
            concurrency: files on their way at a time, within the client's own limit.
            names: what they are called there, as `download` says.
            overwrite: whether other files in their places are replaced.
            keep_partial: whether what came of a file is kept for the next call.
            on_progress: called with a `DownloadProgress` now and then.
            on_error: ``"raise"`` the first failure, or ``"yield"`` a `DownloadFailure`.

        Returns:
            An asynchronous iterator over what is there now.

        Raises:
            ConfigurationError: an argument cannot be meant.
        """
        get = self._getter(
            _below(directory),
            names,
            overwrite=overwrite,
            keep_partial=keep_partial,
            on_progress=on_progress,
        )
        return Downloads(documents, get, concurrency=concurrency, on_error=on_error)

    def _getter(
        self,
        destination: object,
        names: str,
        *,
        overwrite: bool,
        keep_partial: bool,
        on_progress: OnProgress | None,
    ) -> Get:
        template = NameTemplate.read(names)
        place_of(destination, template, _SAMPLE)
        for name, switch in (("overwrite", overwrite), ("keep_partial", keep_partial)):
            if not isinstance(switch, bool):
                raise ConfigurationError(f"{name} is True or False")
        if on_progress is not None and not is_plain_function(on_progress):
            raise ConfigurationError("on_progress is called, not awaited: a plain function")
        seen = FoldersSeen()
        downloader, ask = self._downloader, self.get_documents

        async def get(meant: Meant) -> DownloadedFile | IncomeClientError:
            try:
                place = place_of(destination, template, meant.facts, seen)
            except ConfigurationError as error:
                return error.with_traceback(None)
            job = FileJob(
                facts=meant.facts,
                address=meant.address,
                place=place,
                overwrite=overwrite,
                keep_partial=keep_partial,
                on_progress=on_progress,
                ask=ask,
            )
            return await downloader.fetch(job)

        return get


def _below(directory: object) -> object:
    """Say that a path is a folder's, whether it is there or not."""
    if isinstance(directory, str | os.PathLike):
        path = os.fspath(directory)
        return os.path.join(path, "") if path and isinstance(path, str) else path  # noqa: PTH118 - the slash is the point
    if is_store(directory):
        return directory
    raise ConfigurationError("directory is the path of a folder, or a store of obstore")
