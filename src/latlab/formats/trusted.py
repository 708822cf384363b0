"""The one door to files that other programs write: opened without links, checked, read by copies.

What lies in a shared folder may be anybody's, and may shrink while it is read. A mapped file kills its
reader then; one that is read by copies is only short. The compiled readers have the same door in
`include/latlab/shared_door.hpp`.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from latlab.errors import InputError
from latlab.words import size

__all__ = ["MOST_TEXT_BYTES", "TrustedFile", "all_users", "is_trusted_owner", "read_file"]

ALL_USERS = "LATLAB_ALL_USERS"
"""The environment's variable that `--all-users` sets; processes that latlab starts inherit it."""


MOST_TEXT_BYTES = 1 << 28
"""The largest text that is read whole, in bytes: a longer file is not ours, and would fill the memory."""


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


def read_file(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """A whole file that a user named, through the door.

    Raises:
        InputError: `TrustedFile` refuses it, or it is larger than `most_bytes`.
    """
    with TrustedFile(path, named=True) as file:
        if file.size > most_bytes:
            what = f"has {size(file.size)}, more than the {size(most_bytes)} that such a file may have"
            raise InputError(path, what)
        return file.read(0, file.size)


class TrustedFile:
    """A regular file, open for reading; `close` it, or use it in a `with`.

    Args:
        path: of the file; no symbolic link is followed in its last part.
        owner: the user whom it must belong to; None: us, or for root whoever `all_users` allows.
        named: the user named it: then `is_trusted_owner` decides on its owner.
        observed: it says of a process that the user named only what the process could say of itself anyhow:
            `owner` decides alone.

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
    ) -> None:
        self.path = Path(path)
        # NONBLOCK: a pipe in the file's place would wait for its other end.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        try:
            self._fd = os.open(self.path, flags)
        except OSError as error:
            link = error.errno == errno.ELOOP
            raise InputError(
                path, "is a symbolic link" if link else error.strerror or "can't be read"
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
