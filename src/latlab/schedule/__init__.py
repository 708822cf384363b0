"""What every thread of a program does, without a gap: captured from outside, and derived after it.

`capture_command` runs a command, `capture_pids` looks at running processes; both give a
`latlab.model.schedule.Schedule`. The kernel's tracepoints are collected by BPF programs where they are
allowed, and by perf events else. `method="proc"` needs no rights, and tells less; `grant` how to get them.
"""

from latlab.schedule.capture import Transfers, capture_command, capture_pids
from latlab.schedule.looks import grant
from latlab.schedule.pipes import is_pipe

__all__ = ["Transfers", "capture_command", "capture_pids", "grant", "is_pipe"]
