"""Functions of every kind as components, and programs wherever they lie: each works, or is told in one "
"line."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

# What work.py holds, the component, what app.py prints.
KINDS = {
    "a function": ("def f(i): return i", "work:f", "work.f(i)"),
    "an inherited method": (
        "class B:\n def f(self, i): return i\nclass C(B): pass", "work:C.f", "work.C().f(i)",
    ),
    "a static method": ("class C:\n @staticmethod\n def f(i): return i", "work:C.f", "work.C.f(i)"),
    "a class method": ("class C:\n @classmethod\n def f(cls, i): return i", "work:C.f", "work.C().f(i)"),
    "an inherited class method": (
        "class B:\n n = 1\n @classmethod\n def f(cls, i): return i * cls.n\nclass C(B): n = 2",
        "work:C.f", "work.C.f(i)",
    ),
    "a property": (
        "class C:\n def __init__(self, i): self.i = i\n @property\n def f(self): return self.i",
        "work:C.f", "work.C(i).f",
    ),
    "a cached function": (
        "import functools\n@functools.cache\ndef f(i): return i", "work:f", "work.f(i)",
    ),
    "a cached method": (
        "import functools\nclass C:\n @functools.lru_cache\n def f(self, i): return i\nc = C()",
        "work:C.f", "work.c.f(i)",
    ),
    "a wrapped function": (
        "import functools\ndef twice(g):\n @functools.wraps(g)\n def h(*a): return g(*a) * 2\n return h\n"
        "@twice\ndef f(i): return i", "work:f", "work.f(i)",
    ),
    "a partial": ("import functools\nf = functools.partial(max, 3)", "work:f", "work.f(i)"),
    "a function that a partial holds": (
        "import functools\ndef f(k, i): return k + i\np = functools.partial(f, 5)", "work:f", "work.p(i)",
    ),
    "a function that a table holds": (
        "def f(i): return i\nof = {'f': f}", "work:f", "work.of['f'](i)",
    ),
    "a function that counts its calls": (
        "def f(i):\n f.calls = getattr(f, 'calls', 0) + 1\n return f.calls", "work:f", "work.f(i)",
    ),
    "a cached property": (
        "import functools\nclass C:\n def __init__(self, i): self.i = i\n"
        " @functools.cached_property\n def f(self): return self.i", "work:C.f", "(c := work.C(i)).f + c.f",
    ),
    "a lambda": ("f = lambda i: i", "work:f", "work.f(i)"),
    "a callable object": ("class C:\n def __call__(self, i): return i\nf = C()", "work:f", "work.f(i)"),
    "a function of an extension module": ("", "math:factorial", "__import__('math').factorial(i)"),
    "a module that Python starts with": ("import posixpath", "posixpath:basename",
    "work.posixpath.basename(f'a/{i}')"),
    "a function of a module that latlab needs, too": (
        "import functools", "functools:reduce", "work.functools.reduce(max, [1, i])",
    ),
    "a function for which others are registered": (
        "import functools\n@functools.singledispatch\ndef f(x): return 0\n@f.register\ndef _(x: int): "
        "return x", "work:f", "work.f(i)",
    ),
    "a result that is a set": ("def f(i): return {str(i), 'a', 'b', 'c'}", "work:f", "sorted(work.f(i))"),
    "an argument that is a set": (
        "def f(s): return len(s)", "work:f", "work.f({str(i), 'a', 'b', 'c'})",
    ),
    "an exception with a cause": (
        "def f(i):\n try: {}[i]\n except KeyError as e: raise ValueError(i) from e\n"
        "def g(i):\n try: f(i)\n except ValueError as e: return repr((e, e.__cause__))",
        "work:f", "work.g(i)",
    ),
    "an exit": (
        "import sys\ndef f(i): sys.exit(i)\ndef g(i):\n try: f(i)\n except SystemExit as e: return e.code",
        "work:f", "work.g(i)",
    ),
}  # fmt: skip
#: Told in one line, and with what to do.
REFUSED = {
    "a method of an extension type": ("", "datetime:date.isoformat", "0", "can't be replaced"),
    "a method of a type that latlab needs, too": (
        "import collections", "collections:deque.append", "0", "'collections:deque.append' can't be replaced",
    ),
    "a generator": ("def f(i): yield i", "work:f", "list(work.f(i))", "is a generator"),
    "a coroutine": (
        "import asyncio\nasync def f(i): return i", "work:f", "work.asyncio.run(work.f(i))",
        "is an async function",
    ),
    "a class": ("class C:\n def __init__(self, i): pass", "work:C", "work.C(i)", "work:C.__init__"),
    "nothing": ("", "work:no.such", "0", "there is no 'work:no.such'"),
}  # fmt: skip


def planted(folder: Path, defined: str, shown: str) -> None:
    (folder / "work.py").write_text(f"{defined}\n")
    (folder / "app.py").write_text(f"import work, math, datetime\nfor i in range(5): print({shown})\n")


def stubs(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "latlab", "stubs", *words], env={**os.environ, **more},
        cwd=folder, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def recorded_and_replayed(
    folder: Path, name: str, python: str = sys.executable, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    named = ("--component", name, *options)
    done = stubs(folder, "record", *named, "-o", "t.trace", "--", python, "app.py")
    assert done.returncode == 0, done.stderr
    done = stubs(folder, "replay", "t.trace", *named, "--", python, "app.py", PYTHONHASHSEED="7")
    assert done.returncode == 0, done.stderr
    assert "is the same as without the stub" in done.stderr
    return done


@pytest.mark.long
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_component_of_any_kind_is_recorded_and_replayed(kind: str, tmp_path: Path) -> None:
    defined, name, shown = KINDS[kind]
    planted(tmp_path, defined, shown)
    assert "5 calls of" in recorded_and_replayed(tmp_path, name).stderr


def test_arguments_that_are_sets_tell_calls_apart_under_any_hash_seed(tmp_path: Path) -> None:
    planted(tmp_path, *KINDS["an argument that is a set"][::2])
    recorded_and_replayed(tmp_path, "work:f", options=("--keyed",))


@pytest.mark.parametrize("kind", list(REFUSED))
def test_what_cannot_be_a_component_is_told_in_one_line(kind: str, tmp_path: Path) -> None:
    defined, name, shown, said = REFUSED[kind]
    planted(tmp_path, defined, shown)
    done = stubs(tmp_path, "record", "--component", name, "--", sys.executable, "app.py")
    assert done.returncode in (1, 2)
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr


def test_a_program_of_another_environment_needs_nothing_of_latlab_there(tmp_path: Path) -> None:
    venv.create(tmp_path / "other", with_pip=False)
    python = str(tmp_path / "other/bin/python")
    planted(tmp_path, *KINDS["a function"][::2])
    none = subprocess.run([python, "-c", "import latlab"], cwd=tmp_path, capture_output=True, check=False)
    assert none.returncode == 1
    recorded_and_replayed(tmp_path, "work:f", python)


def test_paths_may_have_spaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a folder with spaces"
    (folder / "temporary files").mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(folder / "temporary files"))
    planted(folder, *KINDS["a function"][::2])
    recorded_and_replayed(folder, "work:f")
