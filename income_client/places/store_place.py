"""A file in an object store of the caller's, under a name made by a template."""

from functools import partial

from income_client.disk.spool import Digest, SomeSpool
from income_client.downloads.naming import (
    EXTENSIONS,
    MEDIA_TYPES,
    FileFacts,
    NameTemplate,
    extension_of,
)
from income_client.errors import DownloadError

from .place import ANOTHER, Present, Published, unnamed_spool
from .stores import Store, first_of, has_attributes, hash_of, size_of
from .uploads import LONGEST_SINGLE, Uploaded, upload


class StorePlace:
    """A place in an object store; the object appears whole, or not at all.

    The file is on this machine, whole, before its first byte goes there. Two
    processes that upload a long file (more than 8 MiB) under one key in the same
    moment both succeed, and the later one's stays: stores know no condition for
    uploads in parts. An upload that is cancelled is aborted by the store's
    library; a process that is killed may leave parts there, which a rule of the
    bucket for incomplete uploads removes.

    Args:
        store: one of obstore's; who may read its objects is its owner's to say.
        template: how the key is made.
        facts: what of.

    Raises:
        ConfigurationError: the template needs what is not known of the document.
    """

    def __init__(self, store: Store, template: NameTemplate, facts: FileFacts) -> None:
        self._store = store
        self._name = template.of(facts)

    async def begin(self) -> SomeSpool | DownloadError:
        """See `Place.begin`; nothing is ever left for a later process."""
        return unnamed_spool()

    async def present(self) -> tuple[Present, ...] | DownloadError:
        """See `Place.present`."""
        key: str | DownloadError | None = self._key(self._name.stem)
        if self._name.has_extension:
            folder = "/".join(self._name.folders) or None
            keys = [self._key(self._name.named(extension)) for extension in EXTENSIONS]
            key = await first_of(self._store, folder, self._key(self._name.stem), keys)
        if key is None or isinstance(key, DownloadError):
            return key or ()
        size = await size_of(self._store, key)
        if size is None or isinstance(size, DownloadError):
            return size or ()
        return (Present(key, size, partial(hash_of, self._store, key)),)

    async def publish(
        self,
        spool: SomeSpool,
        *,
        content_type: str | None = None,
        overwrite: bool = False,
    ) -> Published | DownloadError:
        """See `Place.publish`."""
        digest = await spool.finish()
        if isinstance(digest, DownloadError):
            return digest
        extension = extension_of(content_type, spool.head)
        key = self._key(self._name.named(extension))
        media_type = MEDIA_TYPES.get(extension) if has_attributes(self._store) else None
        published = await self._published(spool, digest, key, media_type, overwrite=overwrite)
        if isinstance(published, Published):
            await spool.discard()
        return published

    async def _published(
        self,
        spool: SomeSpool,
        digest: Digest,
        key: str,
        media_type: str | None,
        *,
        overwrite: bool,
    ) -> Published | DownloadError:
        content = spool.content
        if content is None:
            return DownloadError("the file is closed")
        is_checked = overwrite or digest.size > LONGEST_SINGLE
        may_replace = overwrite
        for _ in range(2):
            if is_checked:
                standing = await self._standing(key, digest, overwrite=overwrite)
                if standing is not None:
                    return standing
            outcome = await upload(
                self._store, key, content, media_type=media_type, overwrite=may_replace
            )
            match outcome:
                case Uploaded.DONE:
                    return Published(key, was_there=False)
                case Uploaded.TAKEN:
                    is_checked = True
                case Uploaded.NO_CONDITION:
                    is_checked = may_replace = True
                case _:
                    return outcome
        return DownloadError(ANOTHER)

    async def _standing(
        self, key: str, digest: Digest, *, overwrite: bool
    ) -> Published | DownloadError | None:
        """Return what an object that is there already means, None if it means nothing."""
        size = await size_of(self._store, key)
        if size is None or isinstance(size, DownloadError):
            return size
        if size == digest.size:
            sha256 = await hash_of(self._store, key, "sha256")
            if isinstance(sha256, DownloadError):
                return sha256
            if sha256 == digest.sha256:
                return Published(key, was_there=True)
        return None if overwrite else DownloadError(ANOTHER)

    def _key(self, name: str) -> str:
        return "/".join((*self._name.folders, name))
