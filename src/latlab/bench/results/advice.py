"""The command that tells what results which were measured apart can't tell."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from latlab.bench.results.imports import Results
from latlab.bench.results.targets import Target
from latlab.model.evidence.bench import VerdictSaid
from latlab.model.evidence.said import said

__all__ = ["Advice", "of_baseline", "of_files", "of_more_runs"]

# By the names of the two benchmarks: one sentence.
Advice = Callable[[str, str], str]
_DIGITS = 12


def of_baseline(
    before: Results, now: Results, targets: Sequence[Target], baseline: Path, folder: Path
) -> Advice:
    """For what was measured now against a baseline file: the two revisions, interleaved.

    Args:
        before: of the baseline.
        now: what was measured.
        targets: that were.
        baseline: its file.
        folder: the working directory.
    """
    files = list(dict.fromkeys(_of_target(target, folder) for target in targets))
    base, head = _revision(before.environment), _revision(now.environment)
    clean = (_clean(before.environment), _clean(now.environment))
    if base and base == head and all(clean):  # what lies between runs isn't known well
        return of_more_runs(
            f"latlab bench run {_of_first(targets)} --save-baseline {shlex.quote(str(baseline))}"
        )
    if base and clean[0]:
        built = any(target.kind not in ("python", "command") for target in targets)
        command = f"latlab bench rev {base} {' '.join(files)}" + (" --build '…'" if built else "")
        sentence = said(VerdictSaid.INTERLEAVE if clean[1] else VerdictSaid.COMMIT, command=command)
    else:
        one = _of_first(targets)
        sentence = said(VerdictSaid.BOTH_FILES, command=f"latlab bench ab OLD/{one} {one}")
        if targets and targets[0].kind == "command":
            sentence = said(VerdictSaid.BOTH_FILES, command=f"latlab bench ab 'OLD/…' {one}")
    return lambda _one, _other: sentence


def of_files(a: Results, b: Results) -> Advice:
    """For two results that files hold."""

    def advice(one: str, other: str) -> str:
        if "hyperfine" in (a.tool, b.tool):  # its benchmarks are called by their commands
            return _both(one, other)
        asked = [found.asked.get("targets") for found in (a, b)]
        if all(isinstance(t, list) and len(set(t)) == 1 for t in asked) and asked[0] != asked[1]:
            return _both(asked[0][0], asked[1][0])  # type: ignore[index]
        return said(VerdictSaid.BOTH_SIDES)

    return advice


def of_more_runs(command: str) -> Advice:
    """For what can't be interleaved: what adds a run of the same code to the baseline."""
    sentence = said(VerdictSaid.MORE_RUNS, command=command)
    return lambda _one, _other: sentence


def _both(one: str, other: str) -> str:
    return said(VerdictSaid.INTERLEAVE, command=f"latlab bench ab {shlex.quote(one)} {shlex.quote(other)}")


def _of_first(targets: Sequence[Target]) -> str:
    """The target as it was written, with the fixture where it is the only one."""
    if not targets:
        return "FILE"
    return f"-- {targets[0].text}" if targets[0].kind == "command" else shlex.quote(targets[0].text)


def _of_target(target: Target, folder: Path) -> str:
    """An option of `latlab bench rev`, whose paths are those of the repository."""
    if target.kind == "command":
        return f"--command {shlex.quote(target.text)}"
    top = next((p for p in (folder, *folder.parents) if (p / ".git").exists()), folder)
    path = target.path
    if path is not None and path.is_relative_to(top):
        _, colon, fixture = target.text.partition(":")
        return f"--target {shlex.quote(f'{path.relative_to(top)}{colon}{fixture}')}"
    return f"--target {shlex.quote(target.text)}"


def _revision(environment: Mapping[str, str]) -> str:
    return environment.get("git.revision", "")[:_DIGITS]


def _clean(environment: Mapping[str, str]) -> bool:
    return environment.get("git.modified") == "False"
