import sys
import time
from pathlib import Path

pid, seconds = int(sys.argv[1]), float(sys.argv[2])
two = (
    Path("/sys/fs/cgroup/cgroup.controllers").exists()
    and "cpu" in Path("/sys/fs/cgroup/cgroup.controllers").read_text()
)
if two:
    group = Path("/sys/fs/cgroup") / f"req-{pid}"
    group.mkdir()
    (group / "cpu.max").write_text("15000 100000")
else:
    group = Path("/sys/fs/cgroup/cpu") / f"req-{pid}"
    group.mkdir()
    (group / "cpu.cfs_period_us").write_text("100000")
    (group / "cpu.cfs_quota_us").write_text("15000")
(group / "cgroup.procs").write_text(str(pid))
time.sleep(seconds + 10)
