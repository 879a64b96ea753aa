"""A file below a folder, under a name made by a template; knows nothing of what is in it."""

from pathlib import Path

from income_client.disk.folders import Folder, open_folder
from income_client.disk.partial_files import FoldersSeen, PartialFile
from income_client.disk.spool import SomeSpool
from income_client.downloads.naming import EXTENSIONS, FileFacts, NameTemplate, extension_of
from income_client.errors import DownloadError

from . import on_disk
from .place import Present, Published


class FolderPlace:
    """A place below a folder, which is made where it is missing, for its owner alone.

    No symbolic link below the folder is followed. Until the file has come, its
    extension is not known: any that is known counts as being there.

    Args:
        directory: the folder.
        template: how the name is made.
        facts: what of.
        seen: folders whose parts are known.

    Raises:
        ConfigurationError: the template needs what is not known of the document.
    """

    def __init__(
        self,
        directory: Path,
        template: NameTemplate,
        facts: FileFacts,
        seen: FoldersSeen | None = None,
    ) -> None:
        self._seen = seen
        self._directory = directory.absolute()
        self._name = template.of(facts)
        self._standing: tuple[str, ...] = ()
        self._names = tuple(dict.fromkeys(map(self._name.named, EXTENSIONS)))

    async def begin(self) -> SomeSpool | DownloadError:
        """See `Place.begin`."""
        return await on_disk.begun(self._open, self._name.stem, may_make=True, seen=self._seen)

    async def present(self) -> tuple[Present, ...] | DownloadError:
        """See `Place.present`."""
        present = await on_disk.found(self._open, self._name.stem, self._names)
        if not isinstance(present, DownloadError):
            self._standing = tuple(str(one.path).rpartition("/")[2] for one in present)
        return present

    async def publish(
        self,
        spool: SomeSpool,
        *,
        content_type: str | None = None,
        overwrite: bool = False,
    ) -> Published | DownloadError:
        """See `Place.publish`."""

        def publish(file: PartialFile) -> Published | DownloadError:
            name = self._name.named(extension_of(content_type, file.content.head))
            return on_disk.publish(name, self._standing, file, overwrite=overwrite)

        return await spool.conclude(publish)

    def _open(self, make: bool) -> Folder:
        return open_folder(self._directory, self._name.folders, make=make)
