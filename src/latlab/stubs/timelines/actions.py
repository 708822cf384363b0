"""Action files: what each thread of a program does, one file a thread.

Over 400 lines: reader, checks and writer of one format, which must agree.

Version 1. A line holds one action; `#` starts a comment; times are microseconds, with decimals where wanted.

    run USEC            hold a CPU for that much CPU time
    sleep USEC          leave the CPU
    ready USEC          want a CPU and have none (kept as long as no threads have to share one)
    create N            start thread N            join N           wait until thread N has ended
    signal NAME         post an event             wait NAME        take one post of it
    lock NAME           take a lock               unlock NAME      give it back
    repeat COUNT … end  do the lines between COUNT times
    memory BYTES        hold that much heap, touched, from now on
    io read BYTES [BLOCK]    io write BYTES [BLOCK]    io fsync
    exit                let those that join go on; what follows is the thread's teardown

A thread that nobody creates starts at the barrier. The thread's number is the one in the file's name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from latlab.errors import InputError, UsageError
from latlab.formats.documents import write_text
from latlab.formats.trusted import MOST_TEXT_BYTES, read_file
from latlab.words import nearest

SUFFIX = ".actions"
VERBS = (
    "run", "sleep", "create", "join", "signal", "wait", "repeat", "end", "memory", "read", "write", "fsync",
    "exit", "ready",
)  # fmt: skip
LONGEST_NS = 3_600_000_000_000
_ORDER = frozenset(("join", "wait", "signal", "create", "exit"))
_MOST_STEPS = 1_000_000

Deed = tuple[int, str, int]  # thread, "create", "join" or "exit", and whom it creates or joins


@dataclass(frozen=True)
class Action:
    """One line of an action file.

    Attributes:
        verb: as written, with "io read", "io write" and "io fsync" in full.
        amount: ns of `run`, `sleep` and `ready`, turns of `repeat`, bytes of `memory` and `io`; else 0.
        thread: number of `create` and `join`; else -1.
        name: of `signal`, `wait`, `lock` and `unlock`; else empty.
        block: bytes at a time, of `io`.
        line: in its file; 0 where it was derived.
    """

    verb: str
    amount: int = 0
    thread: int = -1
    name: str = ""
    block: int = 4096
    line: int = 0

    def text(self) -> str:
        """The action as a line of an action file."""
        if self.verb in ("run", "sleep", "ready"):
            return f"{self.verb} {self.amount / 1e3:.3f}"
        if self.verb in ("create", "join"):
            return f"{self.verb} {self.thread}"
        if self.verb in ("signal", "wait", "lock", "unlock"):
            return f"{self.verb} {self.name}"
        if self.verb in ("repeat", "memory"):
            return f"{self.verb} {self.amount}"
        if self.verb in ("io read", "io write"):
            return f"{self.verb} {self.amount} {self.block}"
        return self.verb


@dataclass(frozen=True)
class Program:
    """Every thread's actions, by the thread's number."""

    threads: dict[int, tuple[Action, ...]]
    source: str = "actions"

    def budgets_ns(self) -> dict[int, int]:
        """CPU time that each thread asks for, repetitions included."""
        return {number: _budget(actions) for number, actions in self.threads.items()}

    def creator_of(self) -> dict[int, int]:
        """The number of the thread that creates each created thread."""
        return {
            action.thread: number
            for number, actions in self.threads.items()
            for action in actions
            if action.verb == "create"
        }


def _budget(actions: Sequence[Action]) -> int:
    total, factors = 0, [1]
    for action in actions:
        if action.verb == "repeat":
            factors.append(factors[-1] * action.amount)
        elif action.verb == "end":
            factors.pop()
        elif action.verb == "run":
            total += action.amount * factors[-1]
    return total


def _number(word: str, source: str, line: int, what: str) -> int:
    if not re.fullmatch(r"-?\d{1,15}", word):
        raise InputError(source, f"{what} must be a whole number, not '{word}'", place=f"line {line}")
    if int(word) < 0:
        raise InputError(source, f"{what} can't be negative ({word})", place=f"line {line}")
    return int(word)


def _time_ns(word: str, source: str, line: int, verb: str) -> int:
    try:
        value = float(word)
    except ValueError:
        raise InputError(source, f"'{verb}' wants microseconds, not '{word}'", place=f"line {line}") from None
    if value < 0:
        raise InputError(source, f"a time can't be negative ({word})", place=f"line {line}")
    if not math.isfinite(value) or value * 1e3 > LONGEST_NS:
        raise InputError(source, f"'{verb} {word}' is longer than an hour", place=f"line {line}")
    return round(value * 1e3)


def _parse_line(words: list[str], source: str, line: int) -> Action:
    verb, rest = words[0].lower(), words[1:]
    if verb == "io" and rest:
        verb, rest = f"io {rest[0].lower()}", rest[1:]
    wanted = {
        "run": (1, 1), "sleep": (1, 1), "ready": (1, 1), "create": (1, 1), "join": (1, 1), "signal": (1, 1),
        "wait": (1, 1),
        "lock": (1, 1), "unlock": (1, 1), "repeat": (1, 1), "end": (0, 0), "memory": (1, 1),
        "io read": (1, 2), "io write": (1, 2), "io fsync": (0, 0), "exit": (0, 0),
    }  # fmt: skip
    if verb not in wanted:
        raise InputError(
            source,
            f"unknown action '{verb}'",
            place=f"line {line}",
            remedy=nearest(verb, wanted) or f"one of {', '.join(wanted)}",
        )
    least, most = wanted[verb]
    if not least <= len(rest) <= most:
        raise InputError(source, f"'{verb}' takes {least} argument(s), not {len(rest)}", place=f"line {line}")
    if verb in ("run", "sleep", "ready"):
        return Action(verb, amount=_time_ns(rest[0], source, line, verb), line=line)
    if verb in ("create", "join"):
        return Action(verb, thread=_number(rest[0], source, line, "a thread"), line=line)
    if verb in ("signal", "wait", "lock", "unlock"):
        return Action(verb, name=rest[0], line=line)
    if verb in ("repeat", "memory"):
        return Action(verb, amount=_number(rest[0], source, line, f"'{verb}'"), line=line)
    if verb in ("io read", "io write"):
        block = _number(rest[1], source, line, "a block") if len(rest) == 2 else 4096
        if block == 0:
            raise InputError(source, "a block can't be 0 bytes", place=f"line {line}")
        return Action(verb, amount=_number(rest[0], source, line, "bytes"), block=block, line=line)
    return Action(verb, line=line)


def parse_thread(text: str, source: str) -> tuple[Action, ...]:
    """One thread's actions.

    Raises:
        InputError: a line is none, with the file and the line's number.
    """
    actions: list[Action] = []
    open_repeats: list[int] = []
    for line, content in enumerate(text.splitlines(), start=1):
        words = content.split("#", 1)[0].split()
        if not words:
            continue
        action = _parse_line(words, source, line)
        if action.verb == "repeat":
            open_repeats.append(line)
        elif action.verb == "end":
            if not open_repeats:
                raise InputError(source, "'end' without a 'repeat'", place=f"line {line}")
            open_repeats.pop()
        actions.append(action)
    if open_repeats:
        raise InputError(source, "'repeat' without its 'end'", place=f"line {open_repeats[-1]}")
    return tuple(actions)


def load(folder: str | Path) -> Program:
    """Read and check every action file of a folder.

    Raises:
        InputError: there is none, or what they say can't be played; see `check`.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(folder, "is not a folder of action files", remedy="see 'latlab stubs capture'")
    paths = sorted(folder.glob(f"*{SUFFIX}")) or sorted(
        path for path in folder.iterdir() if path.is_file() and re.fullmatch(r".*?\d+(\.txt)?", path.name)
    )
    threads: dict[int, tuple[Action, ...]] = {}
    for path in paths:
        match = re.search(r"(\d+)$", path.name.removesuffix(SUFFIX).removesuffix(".txt"))
        if match is None:
            raise InputError(path, "the name ends in no thread number", remedy=f"name it 3{SUFFIX}")
        number = int(match.group(1))
        if number in threads:
            raise InputError(path, f"a second file for thread {number}")
        try:
            text = read_file(path, MOST_TEXT_BYTES).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(path, f"can't be read as text ({error})") from error
        threads[number] = parse_thread(text, str(path))
    if not threads:
        raise InputError(folder, "holds no action files", remedy=f"one file a thread, named 0{SUFFIX}, …")
    program = Program(threads, str(folder))
    check(program)
    return program


def save(program: Program, folder: str | Path) -> None:
    """Write one file a thread."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"*{SUFFIX}"):
        old.unlink()
    for number, actions in program.threads.items():
        write_text(folder / f"{number}{SUFFIX}", render(actions))


def render(actions: Iterable[Action]) -> str:
    """A thread's actions as the text of its file."""
    lines, depth = ["# latlab actions 1"], 0
    for action in actions:
        depth -= action.verb == "end"
        lines.append("  " * depth + action.text())
        depth += action.verb == "repeat"
    return "\n".join(lines) + "\n"


def _place(program: Program, number: int, action: Action) -> tuple[str, str]:
    source = Path(program.source) / f"{number}{SUFFIX}"
    return str(source), f"line {action.line}" if action.line else f"'{action.text()}'"


def check(program: Program) -> None:
    """Refuse what could only hang or crash: unknown threads, cycles, posts that nobody makes.

    Raises:
        InputError: with the file and line of the action that can't be served.
    """
    creators: dict[int, int] = {}
    posts = {
        action.name for actions in program.threads.values() for action in actions if action.verb == "signal"
    }
    for number, actions in program.threads.items():
        held: list[str] = []
        for action in actions:
            source, place = _place(program, number, action)
            if action.verb in ("create", "join") and action.thread not in program.threads:
                raise InputError(
                    source, f"'{action.text()}': there is no thread {action.thread}", place=place,
                    remedy=f"write {action.thread}{SUFFIX}, or take the line out",
                )  # fmt: skip
            if action.verb == "create":
                if action.thread == number or action.thread in creators:
                    raise InputError(source, f"thread {action.thread} is created twice", place=place)
                creators[action.thread] = number
            if action.verb == "wait" and action.name not in posts:
                raise InputError(
                    source, f"no thread signals '{action.name}'", place=place,
                    remedy=f"add 'signal {action.name}' to another thread",
                )  # fmt: skip
            if action.verb == "lock":
                if action.name in held:
                    raise InputError(source, f"'{action.name}' is locked already", place=place)
                held.append(action.name)
            if action.verb == "unlock":
                if action.name not in held:
                    raise InputError(source, f"'{action.name}' isn't locked here", place=place)
                held.remove(action.name)
        if held:
            raise InputError(
                str(Path(program.source) / f"{number}{SUFFIX}"), f"'{held[0]}' is never unlocked"
            )
    _check_order(program, creators)


def _check_order(program: Program, creators: dict[int, int]) -> None:
    """Refuse joins of threads that nobody creates, and threads that wait for one another."""
    roots = [number for number in program.threads if number not in creators]
    if not roots:
        number = min(program.threads)
        raise InputError(program.source, f"every thread is created by another (thread {number} too)")
    stuck = blocked(program)
    if not stuck:
        return
    posted_by = {
        action.name: number
        for number, actions in program.threads.items()
        for action in actions
        if action.verb == "signal"
    }
    for number, action in stuck.items():
        if action.verb == "join" and action.thread not in roots and creators.get(action.thread) is None:
            source, place = _place(program, number, action)
            raise InputError(source, f"thread {action.thread} is joined and never created", place=place)
    joins = {number: action for number, action in stuck.items() if action.verb == "join"}
    if len(joins) < len(stuck):
        number, action = next((n, a) for n, a in stuck.items() if a.verb == "wait")
        source, place = _place(program, number, action)
        raise InputError(
            source,
            f"'{action.name}' is signalled too late or too rarely (by thread {posted_by[action.name]}): the "
            "wait would never end",
            place=place, remedy="signal it once for each wait, and before what waits for this thread",
        )  # fmt: skip
    number, action = next(iter(joins.items()))
    chain = [number]
    while chain[-1] in joins and joins[chain[-1]].thread not in chain:
        chain.append(joins[chain[-1]].thread)
    if chain[-1] in joins:
        chain.append(joins[chain[-1]].thread)
    source, place = _place(program, number, action)
    raise InputError(
        source, f"the joins form a cycle: {' -> '.join(map(str, chain))}", place=place,
        remedy="let one of them end without a join",
    )  # fmt: skip


def blocked(program: Program) -> dict[int, Action]:
    """The joins and waits that no order of events could serve, by thread; empty where the program ends.

    Walked as a program would run: each thread goes on until it waits for a thread that hasn't ended, or for a
    post that nobody has made. Locks are passed, and so are events that several threads take, since there the
    order decides. Of more than a million steps, which would take seconds, nothing is told: it is empty.
    """
    takers: dict[str, set[int]] = {}
    for number, actions in program.threads.items():
        for each in actions:
            if each.verb == "wait":
                takers.setdefault(each.name, set()).add(number)
    created = set(program.creator_of())
    walks = {number: iterate(_ordering(actions)) for number, actions in program.threads.items()}
    at = {number: next(walks[number], None) for number in program.threads if number not in created}
    steps = 0
    posts: dict[str, int] = {}
    ended: set[int] = set()
    progress = True
    while progress:
        progress = False
        for number in sorted(at):
            action = at[number]
            while action is not None:
                if action.verb == "join" and action.thread not in ended:
                    break
                if action.verb == "wait" and len(takers[action.name]) == 1:
                    if not posts.get(action.name):
                        break
                    posts[action.name] -= 1
                if action.verb == "signal":
                    posts[action.name] = posts.get(action.name, 0) + 1
                if action.verb == "create" and action.thread not in at:
                    at[action.thread] = next(walks[action.thread], None)
                if action.verb == "exit":
                    ended.add(number)
                action = at[number] = next(walks[number], None)
                progress = True
                steps += 1
                if steps > _MOST_STEPS:
                    return {}
            if action is None and number not in ended:
                ended.add(number)
                progress = True
    return {number: action for number, action in at.items() if action is not None}


def _ordering(actions: Sequence[Action]) -> list[Action]:
    """Those that decide who waits for whom, in repetitions of which each yields one when it is walked."""
    kept: list[Action] = []
    begins: list[int] = []
    for action in actions:
        if action.verb == "repeat":
            begins.append(len(kept))
            kept.append(action)
        elif action.verb == "end":
            begin = begins.pop()
            if begin == len(kept) - 1 or kept[begin].amount == 0:
                del kept[begin:]
            else:
                kept.append(action)
        elif action.verb in _ORDER:
            kept.append(action)
    return kept


def scale(program: Program, number: int, *, factor: float | None = None, idle: bool = False) -> Program:
    """Change one thread: its runs times `factor`, or its runs made sleeps (an idle stub).

    Raises:
        UsageError: there is no such thread, or the factor is negative.
    """
    if number not in program.threads:
        known = ", ".join(map(str, sorted(program.threads)))
        raise UsageError(f"there is no thread {number}", remedy=f"one of {known}")
    if factor is not None and not 0 <= factor < math.inf:
        raise UsageError(f"a factor can't be {factor}")
    changed = []
    for action in program.threads[number]:
        if action.verb == "run":
            amount = round(action.amount * (1.0 if factor is None else factor))
            action = replace(action, amount=amount, verb="sleep" if idle else "run")
        changed.append(action)
    return Program({**program.threads, number: tuple(changed)}, program.source)


def replace_thread(program: Program, number: int, path: str | Path) -> Program:
    """Put other actions in the place of one thread's: a stub that somebody wrote.

    Raises:
        UsageError: there is no such thread.
        InputError: the file is not an action file, or the program with it can't be played.
    """
    if number not in program.threads:
        known = ", ".join(map(str, sorted(program.threads)))
        raise UsageError(f"there is no thread {number}", remedy=f"one of {known}")
    try:
        text = read_file(path, MOST_TEXT_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, f"can't be read as text ({error})") from error
    changed = Program({**program.threads, number: parse_thread(text, str(path))}, program.source)
    check(changed)
    return changed


def compile_threads(
    program: Program, turns: Mapping[Deed, int]
) -> tuple[list[list[tuple[int, int, int, int]]], list[bool], list[int], list[int]]:
    """What the native player takes: (verb, amount, target, turn) lists, created, semaphores, the numbers.

    Args:
        turns: places of creates, joins and exits in an order that is kept; see `Schedule.turns`.
    """
    numbers = sorted(program.threads)
    index = {number: i for i, number in enumerate(numbers)}
    created = program.creator_of()
    semaphores: dict[tuple[str, str], int] = {}

    def semaphore(kind: str, name: str) -> int:
        return semaphores.setdefault((kind, name), len(semaphores))

    compiled = []
    for number in numbers:
        rows: list[tuple[int, int, int, int]] = []
        open_repeats: list[int] = []
        actions = program.threads[number]
        if (number, "exit", -1) in turns and all(action.verb != "exit" for action in actions):
            actions = (*actions, Action("exit"))
        for at, action in enumerate(actions):
            row = _compile(action, at, rows, open_repeats, index, semaphore)
            rows.append((*row, turns.get((number, action.verb, action.thread), -1)))
        compiled.append(rows)
    first = [1 if kind == "lock" else 0 for kind, _ in semaphores]
    return compiled, [number in created for number in numbers], first, numbers


def _compile(
    action: Action,
    at: int,
    rows: list[tuple[int, int, int, int]],
    open_repeats: list[int],
    index: Mapping[int, int],
    semaphore: Callable[[str, str], int],
) -> tuple[int, int, int]:
    verb = action.verb.removeprefix("io ")
    if verb in ("create", "join"):
        return VERBS.index(verb), 0, index[action.thread]
    if verb in ("signal", "wait"):
        return VERBS.index(verb), 0, semaphore("event", action.name)
    if verb in ("lock", "unlock"):
        return VERBS.index("wait" if verb == "lock" else "signal"), 0, semaphore("lock", action.name)
    if verb == "repeat":
        open_repeats.append(at)
    if verb == "end":
        begin = open_repeats.pop()
        rows[begin] = (rows[begin][0], rows[begin][1], at, rows[begin][3])
        return VERBS.index(verb), 0, begin
    return VERBS.index(verb), action.amount, action.block if verb in ("read", "write") else 0


def iterate(actions: Sequence[Action]) -> Iterator[Action]:
    """The actions with every repetition written out, without `repeat` and `end`."""
    stack: list[tuple[int, int]] = []
    at = 0
    while at < len(actions):
        action = actions[at]
        if action.verb == "repeat":
            if action.amount == 0:
                depth = 1
                while depth:
                    at += 1
                    depth += {"repeat": 1, "end": -1}.get(actions[at].verb, 0)
            else:
                stack.append((at, action.amount))
        elif action.verb == "end":
            begin, left = stack.pop()
            if left > 1:
                stack.append((begin, left - 1))
                at = begin
        else:
            yield action
        at += 1
