"""When each thread of an action program would run if a CPU were always free: pure."""

from __future__ import annotations

from collections import defaultdict

from latlab.stubs._actions import Action, Program, iterate


def running_spans(program: Program) -> list[tuple[int, int]]:
    """(begin_ns, end_ns) of every run, with an endless number of CPUs and wake-ups that cost nothing."""
    actions = {number: list(iterate(thread)) for number, thread in program.threads.items()}
    at = dict.fromkeys(actions, 0)
    clock = dict.fromkeys(actions, 0)
    waiting = set(program.creator_of())
    ended: dict[int, int] = {}
    posts: dict[str, list[int]] = defaultdict(list)
    free_at: dict[str, int] = {}
    spans: list[tuple[int, int]] = []

    def step(number: int, action: Action) -> bool:
        """Take one action; False where it has to wait for another thread."""
        now = clock[number]
        if action.verb == "run":
            spans.append((now, now + action.amount))
            clock[number] = now + action.amount
        elif action.verb in ("sleep", "ready"):
            clock[number] = now + action.amount
        elif action.verb == "create":
            waiting.discard(action.thread)
            clock[action.thread] = now
        elif action.verb == "join":
            if action.thread not in ended:
                return False
            clock[number] = max(now, ended[action.thread])
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
                at[number] += 1
                progress = True
            if at[number] == len(thread) and number not in ended:
                ended[number] = clock[number]
                progress = True
    return spans
