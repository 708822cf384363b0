"""Which functions of a Python program run, and which it waits in: a sampler inside the program under study.

A thread looks at every other thread's innermost frame of the program's own code each 2 ms, and adds the CPU
time that the thread has used since. It imports nothing heavy.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import time
from types import FrameType

PERIOD_S = 0.002
_OWN = os.sep + "latlab" + os.sep


class Sampler(threading.Thread):
    """Samples until the program ends; `save` may be called at any time."""

    def __init__(self) -> None:
        super().__init__(name="latlab-sampler", daemon=True)
        self._library = sysconfig.get_paths()["stdlib"]
        self.cpu_ns: dict[str, int] = {}
        self.samples: dict[str, int] = {}
        self._last: dict[int, int] = {}

    def run(self) -> None:
        """Sample until the session ends."""
        mine = threading.get_ident()
        while True:
            time.sleep(PERIOD_S)
            for thread, frame in sys._current_frames().items():
                if thread != mine:
                    self._add(thread, frame)

    def _add(self, thread: int, frame: FrameType) -> None:
        try:
            used = time.clock_gettime_ns(time.pthread_getcpuclockid(thread))
        except OSError:  # it has ended meanwhile
            return
        name = self._function_of(frame)
        self.cpu_ns[name] = self.cpu_ns.get(name, 0) + used - self._last.get(thread, used)
        self.samples[name] = self.samples.get(name, 0) + 1
        self._last[thread] = used

    def _function_of(self, frame: FrameType) -> str:
        found: FrameType | None = frame
        while found is not None:
            code = found.f_code
            own = not code.co_filename.startswith((self._library, "<frozen")) and _OWN not in code.co_filename
            if own:
                return f"{found.f_globals.get('__name__', '?')}:{code.co_qualname}"
            found = found.f_back
        return "the interpreter"

    def save(self, path: str) -> None:
        """A line a function: CPU time in ns, samples, name."""
        with open(path, "w", encoding="utf-8") as file:
            for name, cpu in list(self.cpu_ns.items()):
                file.write(f"{cpu} {self.samples[name]} {name}\n")
