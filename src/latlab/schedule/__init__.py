"""What every thread of a program does, without a gap: captured from outside, and derived after it.

`capture_command` runs a command, `capture_pids` looks at running processes; both give a
`latlab.model.schedule.Schedule`. The kernel's tracepoints are collected by BPF programs where they are
allowed, and by perf events else.
"""

from latlab.schedule.capture import GivenUpError, Transfers, capture_command, capture_pids

__all__ = ["GivenUpError", "Transfers", "capture_command", "capture_pids"]
