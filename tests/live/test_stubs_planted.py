"""Forty programs whose component changes more than it returns: a stub keeps it, or what differs is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.side_by_side  # what calls change and tell is compared: no time is judged

# name: (what work.py holds, what stands before the loop, the call in it, what is printed at the end).
# `step` or `C.step` is the component.
PLANTED: dict[str, tuple[str, str, str, str]] = {
    "a member": (
        "class C:\n def __init__(self): self.n = 0\n def step(self, i): self.n += 60",
        "c = work.C()", "c.step(i)", "c.n",
    ),
    "a new member": ("class C:\n def step(self, i): self.n = i", "c = work.C()", "c.step(i)", "c.n"),
    "a member that is deleted": (
        "class C:\n def step(self, i):\n  if i == 5: del self.n", "c = work.C(); c.n = 1", "c.step(i)",
        "vars(c)",
    ),
    "a slot": (
        "class C:\n __slots__ = ('n',)\n def __init__(self): self.n = 0\n def step(self, i): self.n += i",
        "c = work.C()", "c.step(i)", "c.n",
    ),
    "a private member": (
        "class C:\n def __init__(self): self.__n = 0\n def step(self, i): self.__n += i\n"
        " def get(self): return self.__n",
        "c = work.C()", "c.step(i)", "c.get()",
    ),
    "a member's member": (
        "class C:\n def __init__(self): self.d = {'a': [0]}\n def step(self, i): self.d['a'][0] += i",
        "c = work.C()", "c.step(i)", "c.d",
    ),
    "a member of another object": (
        "class D:\n n = 0\nclass C:\n def __init__(self): self.d = D()\n def step(self, i): self.d.n += i",
        "c = work.C()", "c.step(i)", "c.d.n",
    ),
    "a helper's member": (
        "class C:\n n = 0\n def add(self, i): self.n += i\n def step(self, i): self.add(i)",
        "c = work.C()", "c.step(i)", "c.n",
    ),
    "a list": ("def step(x, i): x.append(i)", "x = []", "work.step(x, i)", "x"),
    "a list that is cleared": ("def step(x, i): x.clear()", "x = []", "work.step(x, i); x.append(i)", "x"),
    "a list that is sorted": (
        "def step(x, i): x.sort()", "x = [3, 1, 2]", "work.step(x, i)", "x",
    ),
    "a dict": ("def step(x, i): x[i] = i * i", "x = {}", "work.step(x, i)", "sum(x.values())"),
    "a dict's order": (
        "def step(x, i): x[i % 3] = x.pop(i % 3)", "x = dict.fromkeys(range(4), 0)", "work.step(x, i)",
        "list(x)",
    ),
    "a buffer": ("def step(x, i): x[i] = i", "x = bytearray(60)", "work.step(x, i)", "sum(x)"),
    "an array": (
        "def step(x, i): x[i] = i", "import array; x = array.array('q', [0] * 60)", "work.step(x, i)",
        "sum(x)",
    ),
    "a numpy array": ("def step(x, i): x += 1", "import numpy; x = numpy.zeros(9)", "work.step(x, i)",
    "x.sum()"),
    "a view of an array": (
        "def step(x, i): x[1:3] += 1", "import numpy; y = numpy.zeros(9); x = y[2:8]",
        "work.step(x, i)", "y.sum()",
    ),
    "a set": ("def step(x, i): x.add(i % 7)", "x = set()", "work.step(x, i)", "len(x)"),
    "a deque": (
        "def step(x, i): x.rotate(1)", "import collections; x = collections.deque(range(7))",
        "work.step(x, i)", "x",
    ),
    "a heap": (
        "import heapq\ndef step(x, i): heapq.heappush(x, -i)", "x = []", "work.step(x, i)", "x",
    ),
    "an iterator": ("def step(x, i): next(x)", "x = iter(range(99))", "work.step(x, i)", "next(x)"),
    "a generator": ("def step(x, i): return next(x)", "x = (k for k in range(99))", "work.step(x, i)",
    "next(x)"),
    "a counter": (
        "import itertools\nn = itertools.count()\ndef step(i): return next(n)", "", "work.step(i)",
        "next(work.n)",
    ),
    "a file's position": (
        "def step(x, i): return x.readline()", "x = open('work.py')", "work.step(x, i)", "repr(x.read())",
    ),
    "a global": ("n = 0\ndef step(i):\n global n\n n += i", "", "work.step(i)", "work.n"),
    "a global list": ("seen = []\ndef step(i): seen.append(i)", "", "work.step(i)", "work.seen"),
    "another module's global": (
        "import types, sys\nstate = types.ModuleType('state'); state.n = 0; sys.modules['state'] = state\n"
        "def step(i): state.n += i", "", "work.step(i)", "work.state.n",
    ),
    "a class": ("class C:\n n = 0\n def step(self, i): C.n += i", "c = work.C()", "c.step(i)", "work.C.n"),
    "a class by its object": (
        "class C:\n n = 0\n def step(self, i): type(self).n += i", "c = work.C()", "c.step(i)", "work.C.n",
    ),
    "a function's own": (
        "def step(i): step.n += i\nstep.n = 0", "", "work.step(i)", "work.step.n",
    ),
    "a default": ("def step(i, x=[]):\n x.append(i)\n return len(x)", "", "work.step(i)",
    "work.step.__defaults__"),
    "a closure": (
        "def made():\n n = [0]\n def add(i): n[0] += i\n return n, add\ncell, add = made()\ndef "
        "step(i): add(i)",
        "", "work.step(i)", "work.cell",
    ),
    "random numbers": (
        "import random\ndef step(i): return random.random()", "import random; random.seed(1)", "work.step(i)",
        "random.random()",
    ),
    "the environment": (
        "import os\ndef step(i): os.environ['PLANTED'] = str(i)", "import os", "work.step(i)",
        "os.environ.get('PLANTED')",
    ),
    "a cache": (
        "import functools\n@functools.cache\ndef square(i): return i * i\ndef step(i): return square(i % 3)",
        "", "work.step(i)", "work.square.cache_info()",
    ),
    "what it prints": ("def step(i): print(i)", "", "work.step(i)", "0"),
    "what it logs": (
        "import sys\ndef step(i): sys.stderr.write(f'at {i}\\n')", "", "work.step(i)", "0",
    ),
    "a file that it writes": (
        "def step(i):\n with open('out.txt', 'a') as file: file.write(f'{i}\\n')",
        "open('out.txt', 'w').close()",
        "work.step(i)", "len(open('out.txt').read())",
    ),
    "a file that nobody reads": (
        "def step(i):\n with open('out.txt', 'w') as file: file.write(f'{i}\\n')", "", "work.step(i)", "0",
    ),
    "how deep calls may go": (
        "import sys\nn = [0]\ndef step(i):\n n[0] += 1\n sys.setrecursionlimit(1000 + i)",
        "import sys",
        "work.step(i)", "sys.getrecursionlimit()",
    ),
    "the mask of new files": (
        "import os\ndef step(i): os.umask(i)", "import os", "work.step(i)", "os.umask(0)",
    ),
    "whether garbage is collected": (
        "import gc\ndef step(i): gc.disable()", "import gc", "work.step(i)", "gc.isenabled()",
    ),
    "how decimals are rounded": (
        "import decimal\ndef step(i): decimal.getcontext().prec = 5 + i", "import decimal", "work.step(i)",
        "decimal.Decimal(1) / 3",
    ),
    "where modules are found": (
        "import sys\ndef step(i): sys.path.append(f'/none/{i}')", "import sys", "work.step(i)",
        "[one for one in sys.path if one.startswith('/none')]",
    ),
    "what is done at the end": (
        "import atexit\ndef step(i): atexit.register(print, i)", "", "work.step(i)", "0",
    ),
    "a lock": (
        "def step(x, i): x.acquire(False)", "import threading; x = threading.Lock()", "work.step(x, i)",
        "x.locked()",
    ),
    "a module that is imported within": (
        "import sys, types\nsys.modules['within'] = types.ModuleType('within')\ndef step(i):\n import "
        "within\n within.n = i", "", "work.step(i)", "work.sys.modules['within'].n",
    ),
    "a global by its name": (
        "n = 0\ndef step(i): globals()['n'] += i", "", "work.step(i)", "work.n",
    ),
    "a part of what it returns": (
        "class C:\n def __init__(self): self.x = []\n def step(self, i):\n  self.x.append(i)\n  return "
        "self.x",
        "c = work.C()", "c.step(i).append(-1)", "c.x",
    ),
}  # fmt: skip
PYTHON = sys.executable
#: Those that are told and not kept: what they change lies outside of the program's own values.
TOLD = {
    "a generator", "a file's position", "a cache", "what it prints", "what it logs",
    "a file that it writes", "a file that nobody reads", "what is done at the end", "a lock",
    "a module that is imported within",
}  # fmt: skip


def ran(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL
    )


def planted(folder: Path, what: str) -> str:
    """The program's files; the component's name."""
    defined, begin, call, seen = PLANTED[what]
    (folder / "work.py").write_text(defined + "\n")
    (folder / "app.py").write_text(f"import work\n{begin}\nfor i in range(20):\n    {call}\nprint({seen})\n")
    return "work:C.step" if "class C" in defined else "work:step"


def test_there_are_forty() -> None:
    assert len(PLANTED) >= 40


@pytest.mark.parametrize("what", list(PLANTED))
def test_a_stub_keeps_what_a_call_changes_or_tells(what: str, tmp_path: Path) -> None:
    name = planted(tmp_path, what)
    plain = ran(tmp_path, PYTHON, "app.py")
    assert plain.returncode == 0, plain.stderr
    stubs = [PYTHON, "-m", "latlab", "stubs"]
    recorded = ran(tmp_path, *stubs, "record", "--component", name, "-o", "t.trace", "--", PYTHON, "app.py")
    assert recorded.returncode == 0, recorded.stderr
    done = ran(tmp_path, *stubs, "replay", "t.trace", "--component", name, "--", PYTHON, "app.py")
    said = " ".join(line for line in done.stderr.splitlines() if "latlab:" in line)
    if done.returncode == 0:
        assert done.stdout == plain.stdout, recorded.stderr
        assert what not in TOLD, recorded.stderr
    else:
        assert "changes more than its time" in said or "argument" in said, done.stderr
        assert what in TOLD, done.stderr + recorded.stderr


# name: (what work.py holds, what stands before the loop, the call in it, what is told).
OUTSIDE: dict[str, tuple[str, str, str, str]] = {
    "a file elsewhere": (
        "def step(i):\n with open('../elsewhere.txt', 'a') as file: file.write('x')", "", "work.step(i)",
        "writes ../elsewhere.txt",
    ),
    "a file that it removes": (
        "import os\ndef step(i): os.remove(f'f{i}')", "for k in range(20): open(f'f{k}', 'w').close()",
        "work.step(i)", "removes f0, removes f1, removes f2 and 17 more",
    ),
    "a file that is replaced at once": (
        "import os\ndef step(i):\n open('new', 'w').close()\n os.replace('new', '../elsewhere.txt')", "",
        "work.step(i)", "writes ../elsewhere.txt",
    ),
    "a mode": (
        "import os\ndef step(i): os.chmod('work.py', 0o600)", "", "work.step(i)",
        "changes the mode of work.py",
    ),
    "a folder": (
        "import os\ndef step(i): os.makedirs('../made', exist_ok=True)", "", "work.step(i)", "makes ../made",
    ),
    "a command": (
        "import subprocess\ndef step(i): subprocess.run(['true'])", "", "work.step(i)", "starts true",
    ),
    "a descriptor": (
        "import os\ndef step(to, i): os.write(to, b'x')",
        "import os; to = os.open('../elsewhere.txt', os.O_CREAT | os.O_WRONLY)", "work.step(to, i)",
        "elsewhere.txt",
    ),
    "a pipe": (
        "import os\ndef step(to, i): os.write(to, b'x')", "import os; ends = os.pipe()",
        "work.step(ends[1], i)", "writes to pipe",
    ),
    "a database": (
        "import sqlite3\ndef step(i):\n with sqlite3.connect('../base') as db: db.execute('create table if "
        "not exists t(a)')", "", "work.step(i)", "opens the database ../base",
    ),
    "a message": (
        "def step(to, i): to.sendto(b'x', ('127.0.0.1', 9))",
        "import socket; to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", "work.step(to, i)",
        "sends to 127.0.0.1:9",
    ),
}  # fmt: skip
WITHIN = {
    "a file that it makes and removes": (
        "import tempfile\ndef step(i):\n with tempfile.TemporaryDirectory() as d, open(d + '/x', 'w') as f: "
        "f.write('x')\n return i"
    ),
    "a file without a name": "import tempfile\ndef step(i):\n with tempfile.TemporaryFile() as f: "
    "f.write(b'x')\n return i",
    "nowhere": "def step(i):\n with open('/dev/null', 'w') as f: f.write('x')\n return i",
    "a module that it imports": "def step(i):\n import fractions\n return int(fractions.Fraction(i))",
    "a file that it reads": "def step(i): return len(open('work.py').read())",
}


def recorded_and_replayed(folder: Path) -> list[str]:
    """What a recording and a replay of work:step say besides their results."""
    stubs, named = [PYTHON, "-m", "latlab", "stubs"], ["--component", "work:step"]
    done = [
        ran(folder, *stubs, "record", *named, "-o", "t.trace", "--", PYTHON, "app.py"),
        ran(folder, *stubs, "replay", "t.trace", *named, "--no-compare", "--", PYTHON, "app.py"),
    ]
    assert [one.returncode for one in done] == [0, 0], done
    return [" ".join(x for x in one.stderr.splitlines() if x.startswith("latlab:")) for one in done]


@pytest.mark.parametrize("what", list(OUTSIDE))
def test_what_calls_do_outside_of_the_program_is_told(what: str, tmp_path: Path) -> None:
    defined, begin, call, told = OUTSIDE[what]
    folder = tmp_path / "in it"
    folder.mkdir()
    (folder / "work.py").write_text(defined + "\n")
    (folder / "app.py").write_text(f"import work\n{begin}\nfor i in range(20):\n    {call}\n")
    for said in recorded_and_replayed(folder):
        assert "the stub leaves out what its calls do outside of the program: " in said
        assert told in said


@pytest.mark.parametrize("what", list(WITHIN))
def test_what_calls_leave_no_trace_of_is_not_told(what: str, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WITHIN[what] + "\n")
    (tmp_path / "app.py").write_text("import work\nprint(sum(work.step(i) for i in range(20)))\n")
    assert "leaves out" not in " ".join(recorded_and_replayed(tmp_path))
