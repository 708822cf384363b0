"""Whether a process can be looked at: it is there, it is a process, and it has not ended."""

from __future__ import annotations

from pathlib import Path

from latlab.errors import InputError
from latlab.words import printable

__all__ = ["require_running"]

_KERNEL_THREAD = 0x00200000  # PF_KTHREAD in the flags of proc_pid_stat(5)
_FLAGS = 6  # fields behind the name


def require_running(pid: int, proc: Path = Path("/proc")) -> None:
    """A process of this id runs.

    Args:
        proc: for tests.

    Raises:
        InputError: that says what it is instead, and what to do.
    """
    try:
        status = (proc / str(pid) / "status").read_text(errors="replace")
        name, _, rest = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")
    except OSError:
        raise InputError(str(pid), "there is no process with this id", remedy="see `ps -e`") from None
    said = dict(line.partition(":")[::2] for line in status.splitlines())
    name, words = printable(name.partition("(")[2]), rest.split()
    process = said.get("Tgid", "").strip()
    if process and process != str(pid):
        raise InputError(str(pid), f"{name} is a thread of process {process}", remedy=f"give --pid {process}")
    if len(words) > _FLAGS and int(words[_FLAGS]) & _KERNEL_THREAD:
        raise InputError(
            str(pid), f"{name} is a thread of the kernel: it runs no program",
            remedy="`latlab jitter` tells what such threads take from others",
        )  # fmt: skip
    if words and words[0] in "ZX":
        raise InputError(
            str(pid), f"{name} has ended, and only its parent has yet to notice", remedy="see `ps -e`"
        )
