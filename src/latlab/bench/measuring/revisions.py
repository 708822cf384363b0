"""Two revisions of a repository beside each other: a worktree each, built there, removed on every exit.

The worktrees lie in a scratch folder that is named by this process, so that the next run of latlab removes
what a killed one has left; both have paths of one length, since a path's length moves what lies behind it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latlab.bench.results.targets import Target, of_command, parse
from latlab.errors import LatlabError, UsageError
from latlab.system.scratch import scratch
from latlab.words import seconds

__all__ = ["Revision", "installed", "rebuilding", "revisions", "uncommitted"]

_SAID = 12  # lines of a failed build that are shown


@dataclass(frozen=True)
class Revision:
    """A revision that can be measured.

    Attributes:
        name: as it was asked for.
        commit: its hash.
        folder: its worktree.
        site: an empty folder that its Python finds modules in first; a build may install into it.
        flags: for its compiler.
    """

    name: str
    commit: str
    folder: Path
    site: Path
    flags: str = ""

    def target(self, text: str, parameters: Mapping[str, Any] | None = None) -> Target:
        """A fixture's file of the worktree as target.

        Raises:
            UsageError: the revision has no such file.
        """
        try:
            found = parse(str(self.folder / text), parameters)
        except UsageError:
            raise UsageError(
                f"{self.name}: no fixtures in {text}", remedy="name a file of both revisions, or --build it"
            ) from None
        source = self.folder / "src"
        search = (str(self.site), *([str(source)] if source.is_dir() else []), str(self.folder))
        return dataclasses.replace(found, text=f"{self.name}:{text}", cwd=self.folder, search=search)

    def command(self, text: str) -> Target:
        """A command that runs in the worktree as target.

        Raises:
            UsageError: there is no such program.
        """
        words = shlex.split(text)
        own = self.folder / words[0] if words and "/" in words[0] else None
        if own is not None and own.is_file():
            words[0] = str(own)
        search = (str(self.site), str(self.folder))
        return dataclasses.replace(
            of_command(tuple(words)), text=f"{self.name}: {text}", cwd=self.folder, search=search, title=text
        )

    def environment(self) -> dict[str, str]:
        """What a build finds: LATLAB_REVISION, LATLAB_SITE, and the flags as CFLAGS and CXXFLAGS."""
        flags = {"CFLAGS": self.flags, "CXXFLAGS": self.flags} if self.flags else {}
        return {**os.environ, "LATLAB_REVISION": self.commit, "LATLAB_SITE": str(self.site), **flags}


@contextlib.contextmanager
def revisions(
    names: Sequence[str],
    *,
    build: str | None = None,
    flags: Sequence[str] = ("", ""),
    timeout_s: float = 3600,
) -> Iterator[list[Revision]]:
    """Worktrees of revisions of the repository around the working directory, built, for a while.

    Args:
        names: of the revisions.
        build: a shell command that is run in each worktree.
        flags: for the compiler of each.
        timeout_s: seconds after which a build counts as hung.

    Raises:
        UsageError: there is no repository or no such revision.
        LatlabError: a build failed, with what it said.
    """
    top = Path(
        _git(Path.cwd(), "rev-parse", "--show-toplevel", error="this folder is not in a git repository")
    )
    commits = [
        _git(top, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", error=f"no revision '{name}'")
        for name in names
    ]
    with contextlib.ExitStack() as stack:
        _git(top, "worktree", "prune")  # of runs that were killed
        folder = stack.enter_context(scratch("revision"))
        out = []
        for index, (name, commit) in enumerate(zip(names, commits, strict=True)):
            one = Revision(name, commit, folder / "ab"[index], folder / f"{'ab'[index]}-site", flags[index])
            one.site.mkdir()
            stack.callback(_remove, top, one.folder)  # before it is added: adding may be interrupted, too
            _git(top, "worktree", "add", "--detach", "--force", str(one.folder), commit)
            if build is not None:
                _build(one, build, timeout_s)
            out.append(one)
        yield out


def rebuilding(both: Sequence[Revision], build: str) -> str:
    """A shell command that builds all of them anew."""
    parts = []
    for one in both:
        moved = shlex.quote(one.flags) + '" $LATLAB_PADDING"'
        flags = f"CFLAGS={moved} CXXFLAGS={moved} " if one.flags else ""
        named = f"LATLAB_REVISION={one.commit} LATLAB_SITE={shlex.quote(str(one.site))} {flags}"
        parts.append(f"(cd {shlex.quote(str(one.folder))} && {named}sh -c {shlex.quote(build)})")
    return " && ".join(parts)


@contextlib.contextmanager
def installed(wheels: Sequence[Path]) -> Iterator[list[str]]:
    """A folder for each wheel with its content, in which Python looks first; dependencies stay as they are.

    Raises:
        LatlabError: pip could not install one.
    """
    with scratch("wheel") as folder:
        out = []
        for index, wheel in enumerate(wheels):
            site = folder / "ab"[index]
            done = subprocess.run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
                 "--disable-pip-version-check", "--target", str(site), str(wheel)],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode != 0:
                raise LatlabError(f"{wheel}: pip could not install it: {_last(done.stderr)}")
            out.append(str(site))
        yield out


def uncommitted() -> bool:
    """Whether the working tree has changes that no revision holds."""
    return bool(_git(Path.cwd(), "status", "--porcelain", "--untracked-files=no"))


def _build(one: Revision, command: str, timeout_s: float) -> None:
    try:
        done = subprocess.run(
            command, shell=True, cwd=one.folder, env=one.environment(), capture_output=True, text=True,
            errors="replace", check=False, timeout=timeout_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise LatlabError(f"{one.name}: the build has not ended within {seconds(timeout_s)}") from None
    if done.returncode != 0:
        raise LatlabError(
            f"{one.name}: the build ended with {done.returncode}:"
            + "".join(f"\n  | {line}" for line in (done.stdout + done.stderr).splitlines()[-_SAID:])
        )


def _remove(top: Path, folder: Path) -> None:
    """Take a worktree away, also where git no longer can, or has it half made.

    A git that is killed while it adds a worktree leaves it locked, and what is locked is never pruned.
    """
    _try_worktree(top, "unlock", str(folder))
    _try_worktree(top, "remove", "--force", str(folder))
    shutil.rmtree(folder, ignore_errors=True)
    _try_worktree(top, "prune")


def _try_worktree(top: Path, *arguments: str) -> None:
    command = ["git", "-C", str(top), "worktree", *arguments]
    subprocess.run(command, capture_output=True, check=False, env=_plain())


def _git(folder: Path, *arguments: str, error: str | None = None) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False, env=_plain()
        )
    except FileNotFoundError:
        raise UsageError("git is not installed", remedy="install it") from None
    if done.returncode != 0:
        raise UsageError(error or f"git {arguments[0]}: {_last(done.stderr)}")
    return done.stdout.strip()


def _plain() -> Mapping[str, str]:
    """The environment without what a hook of git hands down, which would name another repository."""
    return {k: v for k, v in os.environ.items() if k not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")}


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
