"""What STUDY.toml says."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from latlab.errors import InputError
from latlab.formats.trusted import MOST_TEXT_BYTES, read_file

KINDS = ("python", "c++", "command", "stage")
FASTER = ("work", "wait", "both")
# Fewer rounds than this say nothing.
LEAST_ROUNDS = 4
# Runs of the shortest study: beside its rounds (measuring, comparing, choosing), and of a round.
_RUNS_BESIDE, _RUNS_A_ROUND = 14, 7


def least_seconds(run_s: float) -> float:
    """How long the shortest study takes of a system whose run takes this long."""
    return (_RUNS_BESIDE + LEAST_ROUNDS * _RUNS_A_ROUND) * run_s


def rounds_within(seconds: float, run_s: float) -> float:
    """How many rounds a study of this many seconds has, about."""
    return max(0.0, seconds - _RUNS_BESIDE * run_s) / (_RUNS_A_ROUND * run_s)


@dataclass(frozen=True)
class StudyPlan:
    """What STUDY.toml says.

    Attributes:
        component: ``module:function`` or the name given to the decorator (python), the name given to
            `latlab::stub::component` (c++), a program's name (command), or a stage of the trading
            pipeline ("book") or one instance of it ("book-1").
        kind: "python", "c++", "command" or "stage".
        seconds: time for the whole study.
        rounds: most repetitions of each variant.
        released: the component works without Python's global lock.
        keyed: results are told apart by the arguments, not by their order (python).
        mutates: names or positions of arguments, such as "self", whose state after a call is part of its
            function (python).
        faster: what of the component is faster: its "work", its "wait" (I/O, a sleep) or "both".
        suspicion: first check, by a growing delay in front of the component, that it is a bottleneck at all.
        test: the system's own test, a command line: it has to pass with the stub too.
        layout: of the trading pipeline, for a stage; "": as it comes.
        slow: service time that is planted in stages, as "book=30000".
        validation: a file that `latlab stubs validate -o` wrote, instead.
    """

    component: str
    kind: str = "python"
    seconds: float = 30.0
    rounds: int = 40
    released: bool = False
    keyed: bool = False
    mutates: tuple[str, ...] = ()
    faster: str = "work"
    suspicion: bool = False
    test: str = ""
    validation: str = ""
    layout: str = ""
    slow: tuple[str, ...] = ()
    seed: int = 1


_ARGUMENT = re.compile(r"\w+")
_COMPONENT = re.compile(r"[^\W\d]\w*(\.\w+)*:[^\W\d]\w*(\.\w+)*")
_REMEDY = "give a component as module:function, or a study's file (TOML) that names one"


def plan_of(asked: str | Path) -> StudyPlan:
    """The plan for a component of Python as ``module:function``, or that of STUDY.toml.

    Raises:
        InputError: as by `load_plan`.
    """
    if _COMPONENT.fullmatch(str(asked)) and not Path(asked).exists():
        return StudyPlan(str(asked))
    return load_plan(asked)


def load_plan(path: str | Path) -> StudyPlan:
    """Read STUDY.toml.

    Raises:
        InputError: it isn't TOML, or a key is unknown, missing or of another type.
    """
    try:
        document = tomllib.loads(read_file(path, MOST_TEXT_BYTES, remedy=_REMEDY).decode("utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(path, f"can't be read as TOML ({error})") from error
    kinds: dict[str, type | tuple[type, ...]] = {
        "component": str, "kind": str, "seconds": (int, float), "rounds": int, "released": bool,
        "keyed": bool, "suspicion": bool, "test": str, "validation": str, "seed": int,
        "layout": str, "slow": list, "mutates": list, "faster": str,
    }  # fmt: skip
    for key, value in document.items():
        if key not in kinds:
            raise InputError(path, f"unknown key '{key}'", place=key, remedy=f"one of {', '.join(kinds)}")
        if not isinstance(value, kinds[key]) or (isinstance(value, bool) and kinds[key] is not bool):
            raise InputError(path, f"is {value!r}", place=key)
    if not document.get("component"):
        raise InputError(path, "has no component", place="component")
    if not all(isinstance(one, str) for one in document.get("slow", [])):
        raise InputError(path, "is a list of texts such as 'book=30000'", place="slow")
    named = document.get("mutates", [])
    if not all(isinstance(one, str) and _ARGUMENT.fullmatch(one) for one in named):
        raise InputError(path, "is a list of names of arguments, such as 'self'", place="mutates")
    plan = StudyPlan(**{**document, "slow": tuple(document.get("slow", ())), "mutates": tuple(named)})
    if plan.mutates and plan.kind != "python":
        raise InputError(path, "belongs to a component in Python", place="mutates")
    if plan.kind != "stage" and (plan.layout or plan.slow):
        raise InputError(path, "belongs to a stage", place="layout" if plan.layout else "slow")
    if plan.faster not in FASTER:
        raise InputError(path, f"is '{plan.faster}'", place="faster", remedy=f"one of {', '.join(FASTER)}")
    if plan.faster != "work" and plan.kind == "stage":
        raise InputError(path, "a stage of the trading pipeline works and does not wait", place="faster")
    if plan.kind not in KINDS:
        raise InputError(path, f"is '{plan.kind}'", place="kind", remedy=f"one of {', '.join(KINDS)}")
    if not plan.seconds > 0:
        raise InputError(path, f"is {plan.seconds}, and a study takes more than 0 seconds", place="seconds")
    if plan.rounds < LEAST_ROUNDS:
        raise InputError(path, f"is {plan.rounds}, and a study has at least {LEAST_ROUNDS}", place="rounds")
    if any(c.isspace() for c in plan.component) and plan.kind != "c++":
        raise InputError(path, f"is '{plan.component}', with a space in it", place="component")
    return plan
