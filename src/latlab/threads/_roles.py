"""Threads that do the same are one role, named by what they are called, where they start, or what runs.

Over 400 lines: one rule for each way in which threads belong together, in the order in which they are asked.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from latlab.model.schedule import Schedule, ScheduledThread, Wait

__all__ = [
    "Group",
    "forked_apart",
    "gathered",
    "groups_of",
    "joined_by_main",
    "labelled",
    "process_name",
    "told_apart",
]

_INTERPRETERS = re.compile(r"^(python[\d.]*|perl|ruby|node|bash|sh|dash|java|php[\d.]*|lua[\d.]*)$")
#: Of these the functions in which threads start are the interpreter's, and name nothing of the program.
_RUNTIMES = re.compile(r"^(perl|ruby|node|java|php[\d.]*)$")
#: The option that a program's text follows, which is no name. A shell's `-e` and Python's `-E` have no text.
_TEXTS = {
    "perl": re.compile(r"-[lnpaiw0]*[eE]"),
    "ruby": re.compile(r"-[lnpaw]*e"),
    "node": re.compile(r"-e|-p|-pe|--eval|--print"),
    "php": re.compile(r"-r"),
}
_JAVA_PATHS = ("-cp", "-classpath", "--class-path", "-p", "--module-path")
_NUMBER = re.compile(r"[-_:#/. ]*\d+$")
#: Where every thread of a kind starts: it tells nothing.
_NO_ENTRY = frozenset(
    ("", "main", "_start", "start_thread", "__clone", "clone3", "<module>", "run", "operator()", "??")
)
#: What a server writes last into its title, and changes from moment to moment: PostgreSQL's commands.
_STATE = re.compile(
    r"(?<=\S) (idle( in transaction( \(aborted\))?)?|startup|authentication|[A-Z]{4,}( [A-Z]+)*)( waiting)?$"
)
_TITLE = re.compile(r"[\w.-]+: \w")
_OPTIONS = re.compile(r" (-|\S*/).*$")
_VERSION = re.compile(r"[\d.]*")  # that a program is called by, and was not started by
_TASK = re.compile(r"-{0,2}[A-Za-z][A-Za-z_-]*")
_MOST_TASKS = 8
_TALKS = 10  # waits that one process ended for another
_COMM = 15  # bytes of a name that the kernel keeps
_MANY = 5
_SHORT = 0.25  # of the observed time
_AS_BUSY = 0.6
_GAP = 0.3  # of the time run, between threads that are not alike


@dataclass(frozen=True, slots=True)
class Group:
    """A role before it is measured: its name and the indices of its threads."""

    name: str
    process: str
    entry: str
    threads: tuple[int, ...]


def groups_of(schedule: Schedule, entries: Mapping[int, str]) -> tuple[Group, ...]:
    """The roles.

    Args:
        entries: of a thread the function in which it starts, by its samples, where the schedule has none.
    """
    keys: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    called_for = _told_by_words(schedule)
    for index, thread in enumerate(schedule.threads):
        process = called_for.get(thread.pid) or process_name(thread)
        entry = thread.entry or entries.get(index, "")
        entry = "" if entry in _NO_ENTRY else entry
        called = _called(thread, process)
        if thread.tid == thread.pid:
            keys[(process, "main", "")].append(index)
        elif called:
            # Where a runtime starts its threads tells nothing of what the program called them for.
            keys[(process, called, "" if _of_runtime(thread) else entry)].append(index)
        else:
            keys[(process, "", entry)].append(index)
    _join_unseen(keys)
    processes = {process for process, _, _ in keys}
    runtimes = {key for key, threads in keys.items() if _of_runtime(schedule.threads[threads[0]])}
    names = {key: _name(key, len(processes) > 1 or key in runtimes) for key in keys}
    return tuple(Group(name, key[0], key[2], tuple(keys[key])) for key, name in _apart(names, keys).items())


def _of_runtime(thread: ScheduledThread) -> bool:
    return bool(thread.command) and _RUNTIMES.match(PurePath(thread.command[0]).name) is not None


def _join_unseen(keys: dict[tuple[str, str, str], list[int]]) -> None:
    """Threads of a name that died before anybody saw where they start, with the only kind of that name."""
    starts: dict[tuple[str, str], list[str]] = defaultdict(list)
    for process, called, entry in keys:
        if called and entry:
            starts[process, called].append(entry)
    for (process, called), entries in starts.items():
        if len(entries) == 1 and (unseen := keys.pop((process, called, ""), None)) is not None:
            home = process, called, entries[0]
            keys[home] = sorted((*keys[home], *unseen))


def process_name(thread: ScheduledThread) -> str:
    """The program's name; of an interpreter that of what it runs."""
    process = thread.process or thread.name
    if thread.command:
        program = PurePath(thread.command[0]).name or process
        if _INTERPRETERS.match(program) and process[:4] == program[:4]:  # else it has become another one
            return _script(thread.command) or program
        if _INTERPRETERS.match(process) and (script := _behind(thread.command, process)):
            return script
        if _TITLE.match(thread.command[0]):
            # A server that writes into its title what it is, and what it was started with.
            program = _OPTIONS.sub("", thread.command[0])
        if program.startswith(process[:_COMM]) or _VERSION.fullmatch(process.removeprefix(program)):
            return _STATE.sub("", program).rstrip(": ")
    return process


def _told_by_words(schedule: Schedule) -> dict[int, str]:
    """By pid what a process of a program is called, where others of it hand it work and have another task.

    As of `log write | log read`: the first word that their command lines don't share tells their tasks apart.
    Those that have a number or a file there are workers alike.
    """
    threads = {one.pid: one for one in schedule.threads if one.command}
    by_name: dict[str, list[int]] = defaultdict(list)
    for pid, one in threads.items():
        by_name[process_name(one)].append(pid)
    found: dict[int, str] = {}
    for name, pids in by_name.items():
        words = dict.fromkeys(pids, "")
        for several in itertools.zip_longest(*(threads[pid].command for pid in pids), fillvalue=""):
            if len(set(several)) > 1:
                words = dict(zip(pids, several, strict=True))
                break
        tasks = set(words.values())
        told = 1 < len(tasks) <= _MOST_TASKS and all(_TASK.fullmatch(word) for word in tasks)
        if told and _talk(schedule, set(pids)):
            found |= {pid: f"{name} {word}" for pid, word in words.items()}
    return found


def _talk(schedule: Schedule, pids: set[int]) -> bool:
    """Whether some of these processes wait for what others of them write."""
    rows = schedule.intervals
    handed = rows[(rows["waker"] >= 0) & np.isin(rows["wait"], (Wait.PIPE, Wait.SOCKET, Wait.POLL))]
    process = np.array([one.pid for one in schedule.threads], np.int64)
    reads, writes = process[handed["thread"]], process[handed["waker"]]
    among = np.isin(reads, list(pids)) & np.isin(writes, list(pids)) & (reads != writes)
    return int(among.sum()) >= _TALKS


def _behind(command: Sequence[str], process: str) -> str:
    """What an interpreter runs that another program was started with, and has become, as pyenv's shims do."""
    for at, word in enumerate(command[1:], 1):
        if PurePath(word).name[:4] == process[:4]:
            return _script(command[at:])
    return ""


def _script(command: Sequence[str]) -> str:
    words = iter(command[1:])
    program = PurePath(command[0]).name
    given = _TEXTS.get(program)
    for word in words:
        if program == "java" and word in _JAVA_PATHS:
            next(words, "")
            continue
        if word == "-m":
            return next(words, "")
        if word == "-c":
            line = next(words, "")
            if "resource_tracker" in line:
                return "multiprocessing resource tracker"
            # A worker of multiprocessing is started by such a line, which names nothing of the program.
            worker = "spawn_main" in line or "forkserver" in line
            return "multiprocessing worker" if worker else f"{PurePath(command[0]).name} -c"
        if given is not None and given.fullmatch(word):
            return f"{program} {word}"
        if word in ("-X", "-W", "-O"):
            next(words, "")
        elif not word.startswith("-"):
            return PurePath(word).name
    return ""


def _called(thread: ScheduledThread, process: str) -> str:
    """What the program called this thread, without its number; "" where it called it nothing."""
    name = thread.name
    if name in (thread.process, process, process[:_COMM]) or not name:
        return ""
    if thread.command and name == PurePath(thread.command[0]).name[:_COMM]:
        return ""
    if _INTERPRETERS.match(name):
        return ""
    short = _NUMBER.sub("", name)
    return short if len(short) > 1 else name


def _name(key: tuple[str, str, str], with_process: bool) -> str:
    process, called, entry = key
    if called == "main":
        return process
    own = called or entry or "thread"
    if called and entry and entry.lower() not in called.lower() and called.lower() not in entry.lower():
        own = f"{called} ({entry})"
    return f"{process}: {own}" if with_process or own == "thread" else own


def _apart(
    names: Mapping[tuple[str, str, str], str], keys: Mapping[tuple[str, str, str], Sequence[int]]
) -> dict[tuple[str, str, str], str]:
    """No two roles of one name: a thread named as a process gets its process in front.

    Those of one name in one process that start in unlike functions are called by these.
    """
    counts = Counter(names.values())
    starts = {(name, key[0], key[2]) for key, name in names.items() if key[1] and key[2]}
    by_start = Counter((name, process) for name, process, _ in starts)
    apart: dict[tuple[str, str, str], str] = {}
    for key in keys:
        name = names[key]
        if counts[name] > 1 and by_start[name, key[0]] == counts[name]:
            name = f"{key[0]}: {key[2]}" if name.startswith(f"{key[0]}: ") else key[2]
        elif counts[name] > 1:
            name = f"{key[0]}: {key[1] or key[2] or 'thread'}"
        while name in apart.values():
            name += "'"
        apart[key] = name
    return apart


def told_apart(
    schedule: Schedule,
    groups: Sequence[Group],
    running: Sequence[float],
    place: Callable[[tuple[int, ...]], str],
) -> tuple[Group, ...]:
    """Threads without a name and without a known entry, apart by how much they run; named by where they do.

    Args:
        running: share of each thread's time.
        place: the function in which such threads mostly run, "" where it isn't known.
    """
    out: list[Group] = []
    for group in groups:
        anonymous = not group.entry and group.name.endswith(": thread")
        parts = _by_gap(group.threads, running) if anonymous else [group.threads]
        for part in parts:
            name = group.name
            if anonymous and (where := place(part)):
                name = f"{group.name.removesuffix('thread')}{where}"
            elif len(parts) > 1:
                name = f"{name} that mostly {'runs' if running[part[0]] > 0.5 else 'waits'}"
            taken = {one.name for one in out}
            while name in taken:
                name += "'"
            out.append(Group(name, group.process, group.entry, part))
    return tuple(out)


def gathered(schedule: Schedule, groups: Sequence[Group]) -> tuple[Group, ...]:
    """Threads that lived too shortly for anybody to see where they start, with their like that were seen.

    Only where there is one such role in their process: a program that starts one kind of short threads.
    """
    window = max(1, schedule.ended_ns - schedule.began_ns)

    def short(group: Group) -> bool:
        lives = [schedule.threads[one].ended_ns - schedule.threads[one].began_ns for one in group.threads]
        return len(lives) >= _MANY and max(lives) < _SHORT * window

    known: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        if group.entry and short(group):
            known[group.process].append(group)
    homes = {process: found[0] for process, found in known.items() if len(found) == 1}
    out: dict[Group, tuple[int, ...]] = {}
    for group in groups:
        nameless = not group.entry and group.name.endswith("thread") and short(group)
        home = homes.get(group.process) if nameless else None
        key = group if home is None else home
        out[key] = tuple(sorted((*out.get(key, ()), *group.threads)))
    return tuple(Group(one.name, one.process, one.entry, threads) for one, threads in out.items())


def forked_apart(
    schedule: Schedule,
    groups: Sequence[Group],
    own: Callable[[int, Sequence[int]], str],
    worker: Callable[[int], bool],
) -> tuple[Group, ...]:
    """Processes that were forked and went on in the same program, apart from the one that did it.

    Args:
        own: the function of a thread that none of these others calls, "" where it isn't known.
        worker: whether a thread is the first one of such a process by its stacks, where nobody saw the fork.
    """
    out: list[Group] = []
    for group in groups:
        mine = set(group.threads)
        forked = [one for one in group.threads if _forked(schedule, one, mine) or worker(one)]
        rest = [one for one in group.threads if one not in forked]
        if not forked or not rest:
            out.append(group)
            continue
        out.append(Group(group.name, group.process, group.entry, tuple(rest)))
        parts: dict[str, list[int]] = defaultdict(list)
        for one in forked:
            parts[own(one, rest)].append(one)
        for function, threads in parts.items():
            name = f"{group.name}: {function or 'forked'}"
            while any(name == other.name for other in (*out, *groups)):
                name += "'"
            out.append(Group(name, group.process, function, tuple(threads)))
    return tuple(out)


def joined_by_main(
    schedule: Schedule,
    groups: Sequence[Group],
    running: Sequence[float],
    inside: Callable[[int, str], bool],
) -> tuple[Group, ...]:
    """The thread of a program's `main` with those that it works like: OpenMP's, or a pool that it helps.

    Args:
        running: share of each thread's time.
        inside: whether a thread mostly runs inside of this function.
    """
    out = list(groups)
    for group in groups:
        mains = [one for one in group.threads if schedule.threads[one].tid == schedule.threads[one].pid]
        if len(group.threads) != 1 or not mains:
            continue
        pid = schedule.threads[mains[0]].pid
        for at, other in enumerate(out):
            workers = other.entry and all(schedule.threads[one].pid == pid for one in other.threads)
            # Two event loops start in one function, too: only who works as much does the same.
            least = min(running[one] for one in other.threads)
            workers = workers and _AS_BUSY * running[mains[0]] < least < running[mains[0]] / _AS_BUSY
            if workers and other is not group and inside(mains[0], other.entry):
                out[at] = Group(other.name, other.process, other.entry, (*group.threads, *other.threads))
                out.remove(group)
                break
    return tuple(out)


def _forked(schedule: Schedule, thread: int, among: set[int]) -> bool:
    one = schedule.threads[thread]
    if one.tid != one.pid or one.parent < 0:
        return False
    parent = schedule.threads[one.parent].pid
    return any(schedule.threads[other].pid == parent != one.pid for other in among)


def labelled(schedule: Schedule, groups: Sequence[Group], labels: Mapping[int, str]) -> tuple[Group, ...]:
    """Roles by the names that the program's queues have for them.

    A role of which only some threads are known has their name as long as it is one; else these are apart.

    Args:
        labels: of a thread's id the stage that it runs.
    """
    out: list[Group] = []
    for group in groups:
        parts: dict[str, list[int]] = defaultdict(list)
        for thread in group.threads:
            parts[labels.get(schedule.threads[thread].tid, "")].append(thread)
        known = [label for label in parts if label]
        if len(known) == 1:
            out.append(Group(known[0], group.process, group.entry, group.threads))
        else:
            for label, threads in parts.items():
                out.append(Group(label or group.name, group.process, group.entry, tuple(threads)))
    out = _one_of_a_name(out)
    names = Counter(group.name for group in out)
    seen: Counter[str] = Counter()
    apart = []
    for group in out:
        seen[group.name] += 1
        name = group.name if names[group.name] == 1 else f"{group.name} ({group.process})"
        apart.append(Group(name + "'" * (seen[group.name] - 1), group.process, group.entry, group.threads))
    return tuple(apart)


def _one_of_a_name(groups: Sequence[Group]) -> list[Group]:
    """Those of one process that do the same by their names, as threads that came too late for a label."""
    joined: dict[tuple[str, str], Group] = {}
    for group in groups:
        key = (group.name, group.process)
        if key in joined:
            threads = tuple(sorted((*joined[key].threads, *group.threads)))
            group = Group(group.name, group.process, joined[key].entry or group.entry, threads)
        joined[key] = group
    return list(joined.values())


def _by_gap(threads: Sequence[int], running: Sequence[float]) -> list[tuple[int, ...]]:
    order = sorted(threads, key=lambda thread: -running[thread])
    parts = [[order[0]]]
    for before, thread in itertools.pairwise(order):
        if running[before] - running[thread] > _GAP:
            parts.append([])
        parts[-1].append(thread)
    return [tuple(sorted(part)) for part in parts]
