"""The one door to files that other programs write: opened without links, checked, read by copies; and out.

What lies in a shared folder may be anybody's, and may shrink while it is read. A mapped file kills its
reader then; one that is read by copies is only short. The compiled readers have the same door in
`include/latlab/shared_door.hpp`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from latlab.errors import InputError, UsageError
from latlab.words import size

__all__ = [
    "MOST_TEXT_BYTES",
    "FileWindow",
    "TrustedFile",
    "all_users",
    "check_own_folder",
    "check_place",
    "is_trusted_owner",
    "make_own_folder",
    "open_observed",
    "read_file",
    "to_write",
]  # fmt: skip

ALL_USERS = "LATLAB_ALL_USERS"
"""The environment's variable that `--all-users` sets; processes that latlab starts inherit it."""


MOST_TEXT_BYTES = 1 << 28
"""The largest text that is read whole, in bytes: a longer file is not ours, and would fill the memory."""


_WINDOW_BYTES = 1 << 20
_MOST_LINKS = 40  # from one to the next, as the kernel has it


def all_users() -> bool:
    """Whether root has asked for other users' files, too."""
    return os.geteuid() == 0 and os.environ.get(ALL_USERS) == "1"


def is_trusted_owner(owner: int) -> bool:
    """Whether what a user named by its path may be that owner's.

    Root takes its own, and what belongs to the owner of the folder that it works in, unless it asks for
    every user's. Anybody else may read what the kernel lets them, since they named it themselves.
    """
    if os.geteuid() != 0 or owner == 0 or all_users():
        return True
    try:
        return Path.cwd().stat().st_uid == owner
    except OSError:
        return False


def read_file(path: str | os.PathLike[str], most_bytes: int, *, remedy: str | None = None) -> bytes:
    """A whole file that a user named, through the door.

    Args:
        remedy: what to give instead of a file that is not there.

    Raises:
        InputError: `TrustedFile` refuses it, or it is larger than `most_bytes`.
    """
    with TrustedFile(path, named=True, remedy=remedy) as file:
        if file.size > most_bytes:
            what = f"has {size(file.size)}, more than the {size(most_bytes)} that such a file may have"
            raise InputError(path, what)
        return file.read(0, file.size)


def open_observed(path: str | os.PathLike[str]) -> BinaryIO:
    """A program's file as the process that runs it names it: a regular one, through links, or none.

    Whose process it is lays there what it likes: a pipe that never opens, a device that acts when opened.

    Raises:
        OSError: it is not there, can't be read, or is no regular file (EINVAL).
    """
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)  # nothing is opened by that yet
    try:
        if not stat.S_ISREG(os.fstat(place).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", os.fspath(path))
        return open(f"/proc/self/fd/{place}", "rb")
    finally:
        os.close(place)


def to_write(path: str | os.PathLike[str], flags: int) -> int:
    """Opens a file that a user named for an output: the `opener` of every `open` that writes one.

    In a folder that everybody may write, what lies at the name may be laid there: a link to a file of ours, a
    pipe that never takes anything, a file that is changed afterwards. Such a thing must belong to us or to
    the folder's owner, as the kernel has it where `fs.protected_symlinks` and its like are set.

    Raises:
        OSError: it belongs to somebody else (EPERM), or can't be opened.
    """
    place = os.fspath(path)
    for _ in range(_MOST_LINKS):
        place = check_place(place)
        # EXCL follows no link, and what comes there between the looks is looked at, too.
        with contextlib.suppress(FileExistsError):
            return os.open(place, flags | os.O_CREAT | os.O_EXCL, 0o666)
        if flags & os.O_EXCL:
            break
        with contextlib.suppress(FileNotFoundError):
            opened = os.open(place, (flags | os.O_NOFOLLOW) & ~os.O_TRUNC & ~os.O_CREAT)
            try:
                found = os.fstat(opened)
                _check_laid(place, found)
                if flags & os.O_TRUNC and stat.S_ISREG(found.st_mode):
                    os.ftruncate(opened, 0)
            except OSError:
                os.close(opened)
                raise
            return opened
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path))


def check_place(path: str | os.PathLike[str]) -> str:
    """Where an output goes, links followed that are not laid there by somebody else.

    Raises:
        OSError: one is, or what lies there is (EPERM).
    """
    place = os.fspath(path)
    for _ in range(_MOST_LINKS):
        try:
            found = os.lstat(place)
        except FileNotFoundError:
            return place
        _check_laid(place, found)
        if not stat.S_ISLNK(found.st_mode):
            return place
        place = os.path.join(os.path.dirname(place), os.readlink(place))  # noqa: PTH115, PTH118, PTH120
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))


def _check_laid(place: str, found: os.stat_result) -> None:
    link = stat.S_ISLNK(found.st_mode)
    folder = os.stat(os.path.dirname(place) or ".")  # noqa: PTH116, PTH120
    by_all = folder.st_mode & 0o002 or folder.st_mode & 0o1020 == 0o1020
    ours = found.st_uid in (os.geteuid(), 0) or (by_all and found.st_uid == folder.st_uid)
    if not ours and (by_all or (link and not is_trusted_owner(found.st_uid))):
        what = "a link there" if link else "what is there"
        raise PermissionError(errno.EPERM, f"{what} belongs to user {found.st_uid}", place)


def make_own_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder that no other user may write, or see that one that is there is such a folder.

    Raises:
        UsageError: it is somebody else's, or others may write it.
        OSError: it can't be made.
    """
    folder = Path(path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o755)
        return
    check_own_folder(folder)


def check_own_folder(path: str | os.PathLike[str]) -> None:
    """See that what others lay into a folder is not taken for ours, nor written through.

    Raises:
        UsageError: it is somebody else's, or others may write it.
        OSError: there is none.
    """
    found = Path(path).lstat()
    if stat.S_ISLNK(found.st_mode) and found.st_uid == os.geteuid():
        found = Path(path).stat()
    if stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid():
        raise UsageError(f"{path}: belongs to user {found.st_uid}", remedy="name another place")
    if found.st_mode & 0o002:
        raise UsageError(f"{path}: every user may write it", remedy="remove it, or name another place")


class TrustedFile:
    """A regular file, open for reading; `close` it, or use it in a `with`.

    Args:
        path: of the file; no symbolic link is followed in its last part.
        owner: the user whom it must belong to; None: us, or for root whoever `all_users` allows.
        named: the user named it: then `is_trusted_owner` decides on its owner.
        observed: it says of a process that the user named only what the process could say of itself anyhow:
            `owner` decides alone.
        remedy: what to give instead of a file that is not there.

    Raises:
        InputError: it is absent, no regular file, or somebody else's.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        owner: int | None = None,
        named: bool = False,
        observed: bool = False,
        remedy: str | None = None,
    ) -> None:
        self.path = Path(path)
        # NONBLOCK: a pipe in the file's place would wait for its other end.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        try:
            self._fd = os.open(self.path, flags)
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(path, "there is no such file", remedy=remedy) from None
        except OSError as error:
            link = error.errno == errno.ELOOP
            raise InputError(
                path, "is a symbolic link" if link else f"can't be read ({error.strerror})"
            ) from None
        status = os.fstat(self._fd)
        try:
            self._check(status, owner, named, observed)
        except InputError:
            self.close()
            raise
        self.size = status.st_size

    def _check(self, status: os.stat_result, owner: int | None, named: bool, observed: bool) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise InputError(self.path, "is not a regular file")
        if owner is not None and status.st_uid != owner:
            raise InputError(self.path, f"belongs to user {status.st_uid}, not to user {owner}")
        if named and not is_trusted_owner(status.st_uid):
            raise InputError(
                self.path,
                f"belongs to user {status.st_uid}",
                remedy=f"copy it, or as root set {ALL_USERS}=1",
            )
        if not named and not observed and status.st_uid not in (os.geteuid(), 0) and not all_users():
            raise InputError(
                self.path,
                f"belongs to user {status.st_uid}",
                remedy="copy it, or as root add --all-users",
            )

    def read(self, offset: int, size: int) -> bytes:
        """A copy of `size` bytes; fewer where the file ends before."""
        parts = []
        while size > 0:
            part = os.pread(self._fd, min(size, 1 << 30), offset)
            if not part:
                break
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Give the file back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> TrustedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


class FileWindow:
    """A file's bytes, of which a part is in memory: a large file that ends early must not fill it.

    Attributes:
        size: of the file, in bytes.
    """

    def __init__(self, file: TrustedFile) -> None:
        self._file, self._at, self._data = file, 0, b""
        self.size = file.size

    def take(self, at: int, size: int) -> bytes:
        """Fewer where the file ends before."""
        if at < self._at or at + size > self._at + len(self._data):
            self._at, self._data = at, self._file.read(at, max(size, _WINDOW_BYTES))
        return self._data[at - self._at : at - self._at + size]
