"""A stub that changes more than its component's time is told; what is named is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Each changes something besides its result: (definition, what comes before, call, how the change is seen).
CHANGES = {
    "a member": (
        "class C:\n def __init__(self): self.n = 0\n def step(self, i): self.n += 60",
        "c = work.C()",
        "c.step(i)",
        "c.n",
    ),
    "a member's member": (
        "class C:\n def __init__(self): self.d = {'a': [0]}\n def step(self, i): self.d['a'][0] += i",
        "c = work.C()",
        "c.step(i)",
        "c.d",
    ),
    "a list": ("def step(x, i): x.append(i)", "x = []", "work.step(x, i)", "x"),
    "a dict": ("def step(x, i): x[i] = i * i", "x = {}", "work.step(x, i)", "sum(x.values())"),
    "a buffer": ("def step(x, i): x[i] = i", "x = bytearray(60)", "work.step(x, i)", "sum(x)"),
    "a set": ("def step(x, i): x.add(i % 7)", "x = set()", "work.step(x, i)", "len(x)"),
    "a global": ("n = 0\ndef step(i):\n global n\n n += i", "", "work.step(i)", "work.n"),
    "a class": ("class C:\n n = 0\n def step(self, i): C.n += i", "c = work.C()", "c.step(i)", "work.C.n"),
    "a class method's class": (
        "class C:\n n = 0\n @classmethod\n def step(cls, i): cls.n += i\nclass D(C): pass",
        "c = work.D()",
        "c.step(i)",
        "(work.C.n, work.D.n)",
    ),
    "an iterator": ("def step(x, i): next(x)", "x = iter(range(99))", "work.step(x, i)", "next(x)"),
    "numpy's random numbers": (
        "import numpy\ndef step(x): return x.random(), numpy.random.random()",
        "import numpy; x = numpy.random.default_rng(3); numpy.random.seed(3)",
        "work.step(x)",
        "(x.random(), numpy.random.random())",
    ),
    "a text in memory": (
        "def step(x, i): x.write(str(i))",
        "import io; x = io.StringIO()",
        "work.step(x, i)",
        "x.getvalue()",
    ),
    "an attribute of its own": (
        "def step(i): step.calls = getattr(step, 'calls', 0) + 1",
        "",
        "work.step(i)",
        "work.step.calls",
    ),
    "the environment": (
        "import os\ndef step(i): os.environ['STEP'] = str(i)",
        "import os",
        "work.step(i)",
        "os.environ['STEP']",
    ),
    "what it prints": ("def step(i): print(i)", "", "work.step(i)", "0"),
    "a closure": (
        "seen = []\ndef made():\n n = [0]\n def add(i): n[0] += i\n return n, add\n"
        "cell, add = made()\ndef step(i): add(i)",
        "",
        "work.step(i)",
        "work.cell",
    ),
}
KEPT = {
    "a member": "self",
    "a member's member": "self",
    "a list": "x",
    "a dict": "x",
    "a buffer": "x",
    "a set": "x",
}


def validated(folder: Path, what: str, *options: str) -> subprocess.CompletedProcess[str]:
    defined, begin, call, seen = CHANGES[what]
    (folder / "work.py").write_text(defined + "\n")
    (folder / "app.py").write_text(f"import work\n{begin}\nfor i in range(20):\n    {call}\nprint({seen})\n")
    name = "work:C.step" if "class C" in defined else "work:step"
    command = [sys.executable, "-m", "latlab", "stubs", "validate", "--component", name, *options]
    return subprocess.run(
        [*command, "--", sys.executable, "app.py"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


FOUND = [
    *KEPT, "a global", "a class", "a closure", "a class method's class", "an iterator", "the environment",
    "numpy's random numbers", "a text in memory", "an attribute of its own",
]  # fmt: skip


@pytest.mark.parametrize("what", [what for what in CHANGES if what not in FOUND])
def test_a_stub_that_lets_a_change_go_is_not_valid(what: str, tmp_path: Path) -> None:
    done = validated(tmp_path, what)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "changes more than its time" in done.stdout or "fails with the stub" in done.stdout, done.stdout


@pytest.mark.long
@pytest.mark.parametrize("what", FOUND)
def test_what_a_call_changes_is_found_and_kept(what: str, tmp_path: Path) -> None:
    done = validated(tmp_path, what)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "and says the same; each call's change of " in done.stdout


@pytest.mark.parametrize("what", ["a member", "a dict", "a buffer"])
def test_what_is_named_is_kept(what: str, tmp_path: Path) -> None:
    done = validated(tmp_path, what, "--mutates", KEPT[what])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "with the stub, and says the same" in done.stdout


def study(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "latlab", "stubs", "study", "study.toml", "--", sys.executable, "app.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.long
def test_a_study_of_such_a_stub_is_refused(tmp_path: Path) -> None:
    validated(tmp_path, "what it prints")
    (tmp_path / "study.toml").write_text('component = "work:step"\nseconds = 2\n')
    done = study(tmp_path)
    assert done.returncode == 1
    assert "the stub of work:step changes more than its time: it prints 1 lines and not 21" in done.stderr
    (tmp_path / "study.toml").write_text('component = "work:step"\nmutates = ["no such"]\n')
    done = study(tmp_path)
    assert (done.returncode, "names of arguments" in done.stderr) == (1, True), done.stderr


def test_a_command_that_is_never_called_is_not_validated() -> None:
    validate = [sys.executable, "-m", "latlab", "stubs", "validate", "--kind", "command", "--component"]
    done = subprocess.run([*validate, "nosuch", "--", "sh", "-c", "seq 3"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "'nosuch' is never called by the command; is it found through PATH?" in done.stderr
    done = subprocess.run([*validate, "seq", "--", "sh", "-c", "seq 3"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_a_command_changes_besides_its_output_is_told_in_its_own_words(tmp_path: Path) -> None:
    validate = [sys.executable, "-m", "latlab", "stubs", "validate", "--kind", "command", "--component"]
    script = "rm -f a; tee a </dev/null >/dev/null; ls"
    done = subprocess.run(
        [*validate, "tee", "--", "sh", "-c", script], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "files that a command writes are not made again" in done.stdout
