"""Servers and causes that the answer of `latlab requests` was not made on: the other series.

    python -m benchmarks.requests_strangers [--seed 1] [--only PART] [--seconds 5] [--json FILE]

As `benchmarks.requests_planted`, with its client and its outcomes: a pool of workers behind epoll (TCP and
unix sockets), a web application of http.server, streams of asyncio, redis with scripts and forks, nginx that
delays, PostgreSQL that sleeps, sorts and waits for other sessions.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.requests_planted import (
    PROGRAMS,
    Case,
    built,
    http,
    main,
    neighbour,
    own,
    pause,
    postgresql_with,
    psql,
    quota,
    redis_with,
    resp,
)
from benchmarks.requests_servers import nginx

Serve = Callable[[ExitStack, Path], tuple[int, int | str]]


def _pool(cause: str, unix: bool = False) -> Serve:
    def serve(stack: ExitStack, folder: Path) -> tuple[int, int | str]:
        where = [str(folder.resolve() / "socket")] if unix else []
        pid, port = own(stack, folder, str(built("pool")), cause, *where)
        return pid, where[0] if unix else port

    return serve


def _script(program: str, cause: str) -> Serve:
    def serve(stack: ExitStack, folder: Path) -> tuple[int, int | str]:
        return own(stack, folder, sys.executable, str(PROGRAMS / f"{program}.py"), cause)

    return serve


def _limited(stack: ExitStack, folder: Path) -> tuple[int, int]:
    limit = "limit_req_zone $server_name zone=all:1m rate=40r/s;"
    inside = "location /few { limit_req zone=all burst=50; alias " + str(folder.resolve()) + "/index.html; }"
    return stack.enter_context(nginx(folder, 0, limit, inside))


def _often(stack: ExitStack, chance: random.Random, what: Callable[[], object]) -> None:
    ended = threading.Event()

    def again() -> None:
        while not ended.wait(chance.uniform(0.2, 0.4)):
            what()

    thread = threading.Thread(target=again)
    thread.start()
    stack.callback(thread.join)
    stack.callback(ended.set)


def _forks(stack: ExitStack, _: int, port: int, chance: random.Random) -> None:
    command = ["redis-cli", "-p", str(port), "bgsave"]
    _often(stack, chance, lambda: subprocess.run(command, check=False, stdout=subprocess.DEVNULL))


def _table_lock(stack: ExitStack, _: int, port: int, chance: random.Random) -> None:
    _often(stack, chance, lambda: psql(port, "begin; lock table t; select pg_sleep(0.025); commit"))


_LUA = "local n = 0 for i = 1, 900000 do n = n + i end return n"
_GET = resp("get", "key")
_BUSY = [("receive-queue", "busy"), ("receive-queue", "")]
_PAGE = http("/page?id=7")
_LINE = b"look up\n"
CASES: Sequence[Case] = [
    Case("pool snapshot", [("lock", "")], _pool("snapshot"), _LINE),
    Case("pool sort", [("running", "")], _pool("sort"), _LINE),
    Case("pool pages", [("fault", "")], _pool("pages"), _LINE),
    Case("pool blob", [("send", ""), ("running", "")], _pool("blob"), _LINE),
    Case("pool nap", [("timer", "")], _pool("nap"), _LINE),
    Case("pool all nap", [("timer", ""), ("thread", "")], _pool("naps"), _LINE),
    Case("pool journal", [("disk", "")], _pool("journal"), _LINE),
    Case("pool neighbour", [("runnable", "neighbour")], _pool("none"), _LINE, outside=neighbour, cpu=0),
    Case("unix snapshot", [("lock", "")], _pool("snapshot", True), _LINE),
    Case("unix nap", [("timer", "")], _pool("nap", True), _LINE),
    Case("unix paused", [("process", "stopped")], _pool("none", True), _LINE, outside=pause),
    Case("web gc", [("running", "garbage"), ("lock", "")], _script("web_server", "gc"), _PAGE,
         rate_hz=(200, 350)),
    Case("web digest", [("running", ""), ("lock", "")], _script("web_server", "digest"), _PAGE,
         rate_hz=(200, 400)),
    Case("web commit", [("disk", "")], _script("web_server", "commit"), _PAGE, rate_hz=(200, 400)),
    Case("web one connection", [("lock", "")], _script("web_server", "one connection"), _PAGE,
         rate_hz=(200, 400)),
    Case("web paused", [("process", "stopped")], _script("web_server", "none"), _PAGE, outside=pause,
         rate_hz=(200, 400)),
    Case("loop json", [("running", ""), *_BUSY], _script("loop_server", "json"), _LINE),
    Case("loop pattern", [("running", ""), *_BUSY], _script("loop_server", "pattern"), _LINE),
    Case("loop sync", [("disk", "")], _script("loop_server", "sync"), _LINE),
    Case("loop await", [("timer", "")], _script("loop_server", "await"), _LINE, connections=(2, 3)),
    Case("loop lock", [("timer", ""), ("lock", "")], _script("loop_server", "lock"), _LINE),
    Case("redis script", [("running", ""), *_BUSY], redis_with(), _GET, resp("eval", _LUA, "0"), 170,
         needs="redis-server"),
    Case("redis fork", [("running", ""), ("fault", ""), *_BUSY], redis_with(), _GET, outside=_forks,
         needs="redis-server"),
    Case("redis nap", [("timer", "")], redis_with(), _GET, resp("debug", "sleep", "0.012"), 140,
         needs="redis-server"),
    Case("redis neighbour", [("runnable", "neighbour")], redis_with(), _GET, outside=neighbour, cpu=0,
         needs="redis-server"),
    Case("redis quota", [("runnable", "quota")], redis_with(), _GET, resp("eval", _LUA, "0"), 130,
         outside=quota, needs="redis-server"),
    Case("nginx limited", [("timer", "")], _limited, http("/"), http("/few"), 40, needs="nginx",
         connections=(6, 8)),
    Case("postgresql sleep", [("timer", "")], postgresql_with, other=b"select pg_sleep(0.03);", every=120,
         needs="pgbench"),
    Case("postgresql series", [("running", "")], postgresql_with,
         other=b"select count(*) from generate_series(1, 200000) i;", every=120, needs="pgbench"),
    Case("postgresql table lock", [("lock", ""), ("process", "postgres")], postgresql_with,
         outside=_table_lock, needs="pgbench"),
]  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:], CASES)
