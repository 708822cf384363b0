"""What was before `tune` wrote, kept on disk: by whom, in which boot, and what was written in its place.

Every setting that `tune` writes ends with the boot. After a start of the machine there is nothing to give
back, and the numbers of interrupts and the names of groups may mean something else.

Version history:
    1  files, groups.
    2  boot: of the machine; written: what each file read after the write.
"""

from __future__ import annotations

import calendar
import json
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from latlab.errors import InputError, UnavailableError
from latlab.formats.documents import dumps

__all__ = ["Saved", "boot_id", "state_file"]

VERSION = 2


def state_file() -> Path:
    """Where the previous state is kept: /var/lib for root (it outlives a session), else the user's folder."""
    if os.geteuid() == 0:
        return Path("/var/lib/latlab/previous-settings.json")
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    return Path(base) / "latlab" / "previous-settings.json"


def boot_id(root: Path = Path("/")) -> str:
    """The kernel's name of this start of the machine; "" where it gives none."""
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class Saved:
    """The state before.

    Attributes:
        files: what to write into each, to go back.
        groups: the control groups that were made.
        written: what a file read after it was written; one that is missing here was perhaps not written.
        boot: in which start of the machine; "" of a state of version 1.
        saved_at: UTC, as ISO 8601.
    """

    files: dict[str, str]
    groups: tuple[str, ...] = ()
    written: dict[str, str] = field(default_factory=dict)
    boot: str = field(default_factory=boot_id)
    saved_at: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    def of_this_boot(self) -> bool:
        """Whether the machine still runs as it did then."""
        if self.boot:
            return self.boot == boot_id()
        try:
            then = calendar.timegm(time.strptime(self.saved_at, "%Y-%m-%dT%H:%M:%SZ"))
            return then >= time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        except ValueError:
            return True

    def after(self, path: Path) -> Saved:
        """With what a file reads now as what we wrote."""
        try:
            return replace(self, written={**self.written, str(path): path.read_text().strip()})
        except OSError:
            return self

    def save(self, path: Path) -> None:
        """Write it, on disk when this returns.

        Raises:
            UnavailableError: it can't be.
        """
        document = {
            "schema": VERSION,
            "saved_at": self.saved_at,
            "boot": self.boot,
            "files": self.files,
            "groups": list(self.groups),
            "written": self.written,
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            with open(part, "w", encoding="utf-8") as file:
                file.write(dumps(document, indent=2))
                file.flush()
                os.fsync(file.fileno())  # a machine that crashes by our writes must find it
            part.replace(path)
        except OSError as error:
            raise UnavailableError(
                f"the previous settings can't be saved in {path} ({error.strerror}): nothing was changed"
            ) from None

    @staticmethod
    def load(path: Path) -> Saved:
        """Read it.

        Raises:
            InputError: it is damaged.
        """
        try:
            document = json.loads(path.read_text())
            return Saved(
                {str(one): str(text) for one, text in document["files"].items()},
                tuple(map(str, document.get("groups", []))),
                {str(one): str(text) for one, text in document.get("written", {}).items()},
                str(document.get("boot", "")),
                str(document.get("saved_at", "")),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                path, f"this is not a saved state ({error})", remedy="restore by hand, then remove it"
            ) from None
