"""When each thread of an action program would run if a CPU were always free: pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from latlab.stubs.timelines.actions import Action, Deed, Program, iterate


@dataclass
class Schedule:
    """What happens when, with an endless number of CPUs and wake-ups that cost nothing.

    Attributes:
        spans: (begin_ns, end_ns) of every run.
        deeds: (at_ns, who does what) of every create and join. A join that is waited in is let go by the
            end of the thread that it waits for.
        after: by thread, when each of its actions is over, repetitions written out.
        begins: by thread, when it is created, or 0.
    """

    spans: list[tuple[int, int]] = field(default_factory=list)
    deeds: list[tuple[int, Deed]] = field(default_factory=list)
    after: dict[int, list[int]] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)

    @property
    def total_ns(self) -> int:
        """When the last thread has ended."""
        return max((times[-1] for times in self.after.values() if times), default=0)

    def turns(self) -> dict[Deed, int]:
        """The place of each create and join in their order."""
        found: dict[Deed, int] = {}
        for _, deed in sorted(self.deeds, key=lambda one: one[0]):
            found.setdefault(deed, len(found))
        return found


def schedule(program: Program) -> Schedule:
    """Go through a program's actions by their own times."""
    actions = {number: list(iterate(thread)) for number, thread in program.threads.items()}
    at = dict.fromkeys(actions, 0)
    clock = dict.fromkeys(actions, 0)
    waiting = set(program.creator_of())
    ended: dict[int, int] = {}
    posts: dict[str, list[int]] = defaultdict(list)
    free_at: dict[str, int] = {}
    found = Schedule(after={number: [] for number in actions}, begins=dict.fromkeys(actions, 0))

    def step(number: int, action: Action) -> bool:
        """Take one action; False where it has to wait for another thread."""
        now = clock[number]
        if action.verb == "run":
            found.spans.append((now, now + action.amount))
            clock[number] = now + action.amount
        elif action.verb in ("sleep", "ready"):
            clock[number] = now + action.amount
        elif action.verb == "create":
            waiting.discard(action.thread)
            clock[action.thread] = found.begins[action.thread] = now
            found.deeds.append((now, (number, "create", action.thread)))
        elif action.verb == "join":
            if action.thread not in ended:
                return False
            clock[number] = max(now, ended[action.thread])
            waited = ended[action.thread] > now
            deed = (action.thread, "exit", -1) if waited else (number, "join", action.thread)
            found.deeds.append((clock[number], deed))
        elif action.verb == "signal":
            posts[action.name].append(now)
        elif action.verb == "wait":
            if not posts[action.name]:
                return False
            clock[number] = max(now, posts[action.name].pop(0))
        elif action.verb == "lock":
            clock[number] = max(now, free_at.get(action.name, 0))
        elif action.verb == "unlock":
            free_at[action.name] = now
        elif action.verb == "exit":
            ended.setdefault(number, now)
        return True

    progress = True
    while progress:
        progress = False
        for number, thread in actions.items():
            if number in waiting:
                continue
            while at[number] < len(thread) and step(number, thread[at[number]]):
                found.after[number].append(clock[number])
                at[number] += 1
                progress = True
            if at[number] == len(thread) and number not in ended:
                ended[number] = clock[number]
                progress = True
    return found
