"""Planted pipelines of every shape: is the verdict right, withheld, misleading or wrong?

Lines, queues of one, forks, joins, cycles with a credit window, pools, bursts, unconnected lines, wrong
labels, queues that are not instrumented, stages that end or hang, stages that are as slow as one another; in
threads, coroutines, processes and C++, instrumented or as they are.

    python -m benchmarks.shapes [--cases 87] [--seed 1] [--seconds 3] [--every 2] [--only TEXT] [--neighbour]
    python -m benchmarks.shapes --programs FOLDER

Right: the verdict says what is planted. Withheld: exit code 3, or "cannot tell". Misleading: the right name
beside a number that cannot be (a share above 100 %). Wrong: anything else with exit code 0.
Bars: wrong at most 1 in 100; right in at least 90 % of those whose truth the counts carry, and in at least
95 % of those that are said with a confidence of 95 % and more; named in at most 1 % where nothing is planted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks._bars import Bar, report
from benchmarks._planted import Outcome, neighbour
from benchmarks.shapes_cases import EQUAL, HIDDEN, NONE, STAGE, STOPPED, WRITTEN, Case, cases, strangers
from latlab.system.scratch import scratch

HERE = Path(__file__).parent
PROGRAMS = HERE / "shapes_programs"


def as_text(spec: dict[str, Any]) -> str:
    """The file of the C++ program."""
    rows = [
        f"queue {q['name']} {q['capacity']} "
        + (f"{q['to']} {q['from']}" if q.get("swap") else f"{q['from']} {q['to']}")
        + f" {q.get('initial', 0)}"
        for q in spec["queues"]
    ]
    for s in spec["stages"]:
        times = f"{1e3 * s['ms']} {1e3 * s.get('every_ms', 0.0)} 0"
        rows.append(f"stage {s['name']} {times} {' '.join(s['in'])} -> {' '.join(s['out'])}")
    return "\n".join(rows) + "\n"


def command_of(case: Case, folder: Path, seconds: float) -> list[str]:
    if case.program is not None and case.program.suffix == ".cpp":
        return [str(compiled(case.program, folder))]
    if case.program is not None:
        return [sys.executable, str(case.program)]
    if case.runtime == "cpp":
        file = folder / "shape.txt"
        file.write_text(as_text(case.spec), encoding="utf-8")
        return [str(folder.parent / "in_cpp"), str(file), str(seconds)]
    file = folder / "shape.json"
    plain = case.runtime.startswith("plain ")
    file.write_text(json.dumps({**case.spec, "seconds": seconds, "plain": plain}), encoding="utf-8")
    return [sys.executable, str(PROGRAMS / f"in_{case.runtime.removeprefix('plain ')}.py"), str(file)]


def compiled(source: Path, folder: Path) -> Path:
    """The program of a source in C++."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    options = ["-std=c++20", "-O2", "-DNDEBUG", "-pthread", f"-I{HERE.parent / 'include'}"]
    program = folder / source.stem
    subprocess.run([compiler, *options, str(source), "-o", str(program)], check=True)
    return program


def judged(case: Case, folder: Path, seconds: float) -> Outcome[Case]:
    """Diagnose a pipeline as a user would, and hold what is said against what is planted."""
    command = ["latlab", "diagnose", "--no-forecast", "--json", "-o", str(folder / "run"), "--seconds",
               str(seconds + 2), "--", *command_of(case, folder, seconds)]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 90, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(case, "failed", f"no answer within {seconds + 90:g} s", 0.0)
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        return Outcome(case, "failed", done.stderr[-400:], 0.0)
    said = f"{answer['verdict']}: {answer['limiting_stage']} — {answer['sentence']}"
    if answer["distrust"]:
        said += f" [{answer['distrust'][0]}]"
    if answer["evidence"]:
        said += f" ({answer['evidence'][0]})"
    said += "".join(f" [{doubt['kind']} {doubt['where']} {doubt['other']}]" for doubt in answer["doubts"])
    return Outcome(case, mark(case, answer, done.returncode), said, answer["confidence"])


def mark(case: Case, answer: dict[str, Any], code: int) -> str:
    """right, withheld, misleading or wrong."""
    verdict, name = answer["verdict"], answer["limiting_stage"]
    lines = {line["limiting_stage"] for line in answer.get("lines", ())}
    if case.truth == STOPPED:
        told = [one for one in case.names if one in answer["sentence"] and "stopped" in answer["sentence"]]
        right = bool(told) and verdict == "stopped"
    elif case.runtime == WRITTEN and case.truth in (STAGE, HIDDEN) and len(case.names) == 1:
        said = f"{verdict}: {name or 'unnamed'}"
        right = re.search(case.names[0], said) is not None
    elif case.truth == STAGE and len(case.names) > 1:
        right = lines == set(case.names)
    elif case.truth in (STAGE, HIDDEN):
        right = name in case.names
    elif case.truth == EQUAL:
        right = name is None and not any(lines)
    else:  # a paced source is an answer, too: nothing is short
        right = (name is None and verdict == case.truth) or (case.truth == NONE and verdict == "timer")
    if case.truth == EQUAL and right:
        return "right"
    if code == 3 or verdict == "cannot tell":
        return "withheld"
    if right:
        return "misleading" if impossible(answer) else "right"
    return "wrong"


def impossible(answer: dict[str, Any]) -> bool:
    """A number that cannot be stands in what is said."""
    words = [answer["sentence"], *answer["evidence"]]
    return any(float(share) > 101 for text in words for share in re.findall(r"([\d.]+) ?%", text))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=87)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--skip", type=int, default=0, help="cases that are left out at the start")
    parser.add_argument("--take", type=int, default=1000, help="cases after those")
    parser.add_argument("--every", type=int, default=1, help="of these, one in so many")
    parser.add_argument("--only", default="", help="shapes or runtimes that hold this text")
    parser.add_argument("--programs", type=Path, help="a folder of programs to judge instead of all others")
    parser.add_argument("--neighbour", action="store_true", help="beside a process that computes")
    parser.add_argument("--keep", type=Path, help="where recordings of what was not right are kept")
    parser.add_argument("--json", type=Path, help="where the outcomes are written")
    given = parser.parse_args()
    outcomes: list[Outcome[Case]] = []
    with scratch("shapes") as temporary:
        compiled(PROGRAMS / "in_cpp.cpp", Path(temporary))
        with neighbour(there=given.neighbour):
            chosen = [*cases(given.cases, given.seed), *strangers()]
            if given.programs is not None:
                chosen = list(strangers(given.programs))
            for number, case in enumerate(chosen):
                if number not in range(given.skip, given.skip + given.take, given.every):
                    continue
                if given.only not in f"{case.shape} {case.runtime}":
                    continue
                folder = Path(temporary) / str(number)
                folder.mkdir()
                found = judged(case, folder, given.seconds)
                if given.keep and found.mark != "right":
                    shutil.copytree(folder, given.keep / f"{given.seed}-{number}", dirs_exist_ok=True)
                shutil.rmtree(folder / "run", ignore_errors=True)
                outcomes.append(found)
                planted = f"{case.truth}: {', '.join(case.names)}"
                print(
                    f"{found.mark:10} {case.shape:15} {case.runtime:10} {planted:28} | {found.said}",
                    flush=True,
                )
    if given.json:
        rows = [
            {"shape": o.case.shape, "runtime": o.case.runtime, "mark": o.mark, "said": o.said}
            for o in outcomes
        ]
        given.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return summary(outcomes)


def summary(outcomes: list[Outcome[Case]]) -> int:
    """The counts, the calibration table, the bars."""
    marks = {name: sum(o.mark == name for o in outcomes)
             for name in ("right", "withheld", "misleading", "wrong", "failed")}  # fmt: skip
    print(", ".join(f"{name} {count}" for name, count in marks.items()))
    for low, high in ((0.0, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 1.01)):
        said = [
            o for o in outcomes if low <= o.confidence < high and o.mark in ("right", "misleading", "wrong")
        ]
        if said:
            right = sum(o.mark != "wrong" for o in said) / len(said)
            print(f"said with {low:.0%} to {min(high, 1):.0%}: {len(said)}, of these right {right:.0%}")
    sure = [o for o in outcomes if o.confidence >= 0.95 and o.mark in ("right", "misleading", "wrong")]
    true = sum(o.mark != "wrong" for o in sure) / max(1, len(sure))
    silent = [o for o in outcomes if o.case.truth in (NONE, EQUAL)]
    known = [o for o in outcomes if o.case.truth != HIDDEN]
    total = max(1, len(outcomes))
    return report(
        [
            Bar("wrong with exit code 0", marks["wrong"] / total, 0.01),
            Bar(
                "right where identifiable",
                sum(o.mark == "right" for o in known) / max(1, len(known)),
                0.9,
                at_least=True,
            ),
            Bar("right of those said with 95 % and more", true, 0.95, at_least=True),
            Bar(
                "named where nothing is planted",
                sum(o.mark == "wrong" for o in silent) / max(1, len(silent)),
                0.01,
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
