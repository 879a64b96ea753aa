"""Files on their way, beside their target; knows neither the network nor what a target is for.

The name of a part says what it is a part of, so that a later process can go on
with what a killed one has left. A lock says whether somebody is at work on it.
Everything here is done in threads, by one at a time.
"""

import errno
import os
import re
import secrets
import stat
import time
from contextlib import suppress
from enum import Enum, auto
from functools import lru_cache
from pathlib import Path
from typing import Final

from .folders import Folder
from .hashed_file import HashedFile
from .part_names import PartName, is_part, is_strong

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_FIRST_DIGITS: Final = re.compile(r"[0-9a-f]{8}")
_PRIVATE: Final = 0o600
_TRIES: Final = 16
_MOST_SEEN: Final = 4096
_DAY_SECONDS: Final = 86_400
_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK},
)


class _Lock(Enum):
    """What came of trying to lock a part."""

    HELD = auto()
    TAKEN = auto()
    UNKNOWN = auto()
    """The file system has no locks: nothing can be said of who is at work."""


class PartialFile:
    """A file that is being written beside its target, private and locked.

    Attributes:
        content: what is in it.
        mark: what it is a part of, as a mark, None where there is none.
        folder: where it is.
    """

    def __init__(
        self, folder: Folder, name: PartName, content: HashedFile, *, is_locked: bool
    ) -> None:
        self.content = content
        self.mark: str | None = name.mark
        self.folder = folder
        self._name = name
        self._is_locked = is_locked
        self._is_over = False

    @property
    def size(self) -> int:
        """Bytes in it."""
        return self.content.size

    def publish(self, final: str, *, overwrite: bool) -> None:
        """Bring it to the disk and give it its final name, whole, or raise.

        Args:
            final: one component; nothing but a regular file is ever replaced.
            overwrite: whether to replace one.

        Raises:
            FileExistsError: something has the name, and is not to be replaced.
            OSError: the disk refuses.
        """
        if not self.content.is_closed:
            self.content.sync()
            if not self._is_there():
                raise OSError(errno.ENOENT, "the part was removed by somebody else")
            self._let_go()
        if overwrite:
            check_is_regular(self.folder, final)
            self.folder.replace(str(self._name), final)
        else:
            _name_once(self.folder, str(self._name), final)
        self._is_over = True
        # The file is whole at its place: what fails from here on is its durability.
        try:
            self.folder.unlink(str(self._name))
            self.folder.sync()
        finally:
            self.content.close()

    def discard(self) -> None:
        """Remove it; a second time, or once it is published, does nothing."""
        if not self._is_over:
            self._is_over = True
            try:
                # Somebody else's file may have the name by now.
                if self.content.is_closed or self._is_there():
                    self._let_go()
                    self.folder.unlink(str(self._name))
            finally:
                self.content.close()

    def keep(self) -> None:
        """Leave it for the next process; what that could not use is removed."""
        is_of_use = self.size > 0 and self._is_locked and self._name.can_be_adopted(boot_id())
        if not is_of_use:
            self.discard()
        elif not self._is_over:
            self._is_over = True
            self.content.close()

    def _is_there(self) -> bool:
        return _is_at(self.folder, str(self._name), self.content.descriptor)

    def _let_go(self) -> None:
        """Close it before it is renamed or removed, if that gives up no lock."""
        # Windows, which has no such locks, renames and removes no open file.
        if not self._is_locked:
            self.content.close()


def create(folder: Folder, target: str, mark: str | None) -> PartialFile:
    """Make an empty part, for its owner alone.

    Args:
        folder: where the target is to be.
        target: what the target is called, its extension aside.
        mark: the mark of what is to be written; kept only if it is a strong one.

    Raises:
        OSError: the disk refuses.
    """
    boot = boot_id()
    for _ in range(_TRIES):
        name = PartName.of(target, mark if is_strong(mark) else None, boot, secrets.token_hex(4))
        descriptor = folder.open(str(name), os.O_CREAT | os.O_EXCL | os.O_RDWR, _PRIVATE)
        content = HashedFile(descriptor, is_lasting=True)
        try:
            _set_private(descriptor)  # the umask may have taken from it
            # Between these two lines somebody may have taken it for a dead one.
            lock = _lock(descriptor)
            is_ours = lock is not _Lock.TAKEN and _is_at(folder, str(name), descriptor)
        except BaseException:
            content.close()
            folder.unlink(str(name))
            raise
        if is_ours:
            return PartialFile(folder, name, content, is_locked=lock is _Lock.HELD)
        content.close()
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


class FoldersSeen:
    """Which parts were in each folder at the first look: one look, however many files go there."""

    def __init__(self) -> None:
        self._parts: dict[tuple[int, int], tuple[str, ...]] = {}

    def parts_in(self, folder: Folder) -> tuple[str, ...]:
        """Return the names of the parts that may be there."""
        known = self._parts.get(folder.identity)
        if known is None:
            known = tuple(name for name in folder.names() if is_part(name))
            if len(self._parts) >= _MOST_SEEN:
                self._parts.clear()
            self._parts[folder.identity] = known
        return known


def adopt(folder: Folder, target: str, seen: FoldersSeen | None = None) -> PartialFile | None:
    """Take over the longest part of a target that a killed process has left; remove the others.

    Args:
        folder: where the target is to be.
        target: what the target is called, its extension aside.
        seen: folders that were looked at before, which are not looked at again.

    Returns:
        It, its content hashed; None if there is none that can be trusted.

    Raises:
        OSError: the disk refuses.
    """
    boot = boot_id()
    found = []
    for text in (seen or FoldersSeen()).parts_in(folder):
        name = PartName.read(text, target)
        facts = None if name is None else folder.find(text)
        if name is not None and facts is not None:
            found.append((facts.st_size, name))
    adopted: PartialFile | None = None
    for _, name in sorted(found, key=lambda one: one[0], reverse=True):
        adopted = _take(folder, name, boot, may_adopt=adopted is None) or adopted
    if adopted is not None:
        try:
            adopted.content.read_in()
        except BaseException:
            adopted.keep()
            raise
    return adopted


def _take(
    folder: Folder, name: PartName, boot: str | None, *, may_adopt: bool
) -> PartialFile | None:
    """Adopt one part or remove it; leave alone what is at work, or not ours."""
    try:
        descriptor = folder.open(str(name), os.O_RDWR)
    except OSError:  # a link, a folder, gone meanwhile, or somebody else's
        return None
    content = HashedFile(descriptor, is_lasting=True)
    is_adopted = False
    try:
        facts = os.fstat(descriptor)
        # Where there are no locks, there may be no users either.
        if not stat.S_ISREG(facts.st_mode) or _lock(descriptor) is not _Lock.HELD:
            return None
        if facts.st_uid != os.geteuid():
            return None
        if not _is_at(folder, str(name), descriptor):
            return None
        is_private = stat.S_IMODE(facts.st_mode) == _PRIVATE and facts.st_nlink == 1
        is_adopted = may_adopt and is_private and facts.st_size > 0 and name.can_be_adopted(boot)
        if is_adopted:
            return PartialFile(folder, name, content, is_locked=True)
        # A second link to it is a target that was published just before the end. What another
        # boot has written may be another machine's on the same network folder, at work.
        is_from_elsewhere = not name.is_of(boot) and time.time() - facts.st_mtime < _DAY_SECONDS
        if not is_from_elsewhere:
            with suppress(OSError):
                folder.unlink(str(name))
        return None
    finally:
        if not is_adopted:
            content.close()


@lru_cache(maxsize=1)
def boot_id() -> str | None:
    """Return 8 hex digits that tell this boot of the machine; None where it does not say."""
    try:
        text = _BOOT_ID.read_text("ascii")
    except (OSError, UnicodeError):
        return None
    found = _FIRST_DIGITS.match(text)
    return None if found is None else found[0]


def check_is_regular(folder: Folder, name: str) -> os.stat_result | None:
    """Return what stands where a file is to go, None for nothing.

    Raises:
        FileExistsError: it is a link, a folder or anything else but a regular file.
    """
    found = folder.find(name)
    if found is None or stat.S_ISREG(found.st_mode):
        return found
    kinds = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISDIR, "a folder"))
    kind = next((text for is_kind, text in kinds if is_kind(found.st_mode)), "no regular file")
    raise FileExistsError(errno.EEXIST, f"{kind} stands where it is to go")


def make_private(folder: Folder, name: str) -> None:
    """Take from a file what others may do with it, if it is ours."""
    with suppress(OSError):
        descriptor = folder.open(name, os.O_RDONLY)
        try:
            if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
                _set_private(descriptor)
        finally:
            os.close(descriptor)


def _set_private(descriptor: int) -> None:
    """Let the owner alone read a file; Windows knows no such thing of a file."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, _PRIVATE)


def _name_once(folder: Folder, part: str, final: str) -> None:
    try:
        folder.link(part, final)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Without links there is a moment in which two processes find the place free.
        if folder.find(final) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        folder.replace(part, final)


def _is_at(folder: Folder, name: str, descriptor: int) -> bool:
    found = folder.find(name)
    return found is not None and os.path.samestat(found, os.fstat(descriptor))


def _lock(descriptor: int) -> _Lock:
    try:
        import fcntl  # noqa: PLC0415 - not every system has it, and the rest goes without
    except ModuleNotFoundError:
        return _Lock.UNKNOWN
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _Lock.TAKEN
    except OSError:
        return _Lock.UNKNOWN
    return _Lock.HELD
