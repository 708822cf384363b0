"""What a diagnosis is asked: the file that names what is known, and defaults for all that it leaves out.

The file is TOML. A layout of the trading pipeline (`examples/trading.toml`) may hold a table ``[diagnose]``;
a file for one's own application holds nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from latlab.errors import InputError
from latlab.formats.checked_toml import as_table, checked, only, read_document, table
from latlab.model.diagnosis.answer import Objective
from latlab.model.diagnosis.layout import STAGES, Layout

__all__ = ["OBSERVED_S", "QUANTILES", "Question", "read_question"]

OBSERVED_S = 30.0  # a command or a process, at most, where nothing else is said
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
_KEYS = {"seconds", "budget_s", "input", "symbols", "seed", "objective", "stages", "command", "components"}


@dataclass(frozen=True, slots=True)
class Question:
    """What is known, and what is wanted.

    Attributes:
        source: the file, for errors; "" without one.
        layout: of the trading pipeline, where that is diagnosed.
        command: of one's own application, where that is.
        pid: of a running one.
        seconds: of one run of the pipeline, or of the observation at most.
        budget_s: wall time for the whole diagnosis; the forecast takes what the rest leaves.
        input: an ITCH-5.0 file to replay; None: generated.
        input_from: the file that names it, for errors; "" where the command line does.
        stages: that may be stubbed; empty: any.
        components: of one's own application: stage → component as `latlab stubs` names it.
        floor_s: for the machine's floor.
        forecast: whether to say what a faster stage would buy.
        stage: to forecast whatever limits; None: the one that limits.
        apply: the speed-up of the stage that is applied and measured beside its forecast; None: none is.
        planted: service time that was planted in the layout's stages, as "book=30000".
    """

    source: str = ""
    layout: Layout | None = None
    command: tuple[str, ...] = ()
    pid: int | None = None
    seconds: float = 3.0
    budget_s: float = 180.0
    input: Path | None = None
    input_from: str = ""
    symbols: int = 200
    seed: int = 1
    objective: Objective | None = None
    stages: tuple[str, ...] = ()
    components: Mapping[str, str] = field(default_factory=dict)
    floor_s: float = 1.0
    forecast: bool = True
    stage: str | None = None
    apply: float | None = None
    planted: tuple[str, ...] = ()


def read_question(path: str | os.PathLike[str]) -> Question:
    """Read and check the file.

    Raises:
        InputError: that names the file, the key and what it may hold.
    """
    source = os.fspath(path)
    document = read_document(path, remedy="give a layout file, or a file with a table [diagnose]")
    given = table(document, "diagnose", source)
    only(given, _KEYS, source, "diagnose")
    question = Question(source=source)
    for key, kind in (("seconds", float), ("budget_s", float), ("symbols", int), ("seed", int)):
        if key in given:
            question = replace(question, **{key: checked(given[key], kind, source, f"diagnose.{key}")})
    if "input" in given:
        # A path in a file is meant from where the file lies.
        file = Path(source).parent / checked(given["input"], str, source, "diagnose.input")
        question = replace(question, input=file, input_from=source)
    if "objective" in given:
        question = replace(question, objective=_objective(given["objective"], source))
    components = as_table(given.get("components", {}), source, "diagnose.components")
    for stage, name in components.items():
        checked(name, str, source, f"diagnose.components.{stage}")
    question = replace(question, components=dict(components))
    command = _texts(given, "command", source)
    if command:
        rest = sorted(set(document) - {"diagnose"})
        if rest:
            raise InputError(
                source,
                "a command is diagnosed, so a layout of the trading pipeline makes no sense",
                place=rest[0],
                remedy="leave out diagnose.command, or the layout",
            )
        # A command of one's own ends by itself; a run of the pipeline ends when it is told to.
        seconds = question.seconds if "seconds" in given else OBSERVED_S
        return replace(question, command=command, seconds=seconds)
    from latlab.lab.trading.layout import parse_layout  # of the demonstration, as nobody's own program is

    layout = parse_layout(document, source)
    stages = _texts(given, "stages", source)
    known = [*STAGES, *(name for stage in STAGES for name in layout.instances(stage))]
    for name in stages:
        if name not in known:
            raise InputError(
                source,
                f"there is no stage {name!r}",
                place="diagnose.stages",
                remedy=f"name one of: {', '.join(known)}",
            )
    return replace(question, layout=layout, stages=stages)


def _texts(given: Mapping[str, Any], key: str, source: str) -> tuple[str, ...]:
    values = given.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InputError(
            source, "must be a list of texts", place=f"diagnose.{key}", remedy=f'write {key} = ["…", "…"]'
        )
    return tuple(values)


def _objective(value: Any, source: str) -> Objective:
    place = "diagnose.objective"
    given = as_table(value, source, place)
    if len(given) != 1 or next(iter(given)).removesuffix("_ns") not in QUANTILES:
        raise InputError(
            source,
            "must name one quantile and its limit",
            place=place,
            remedy='write objective = { "p99.9_ns" = 500_000 }',
        )
    key, limit = next(iter(given.items()))
    return Objective(QUANTILES[key.removesuffix("_ns")], checked(limit, int, source, f"{place}.{key}"))
