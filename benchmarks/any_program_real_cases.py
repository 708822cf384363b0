"""The cases of `any_program_real`: commands of the distribution, and what limits each.

Over 400 lines: one table, of which each row is a program's command and its truth.
"""

# ruff: noqa: E501 - a table of commands

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CASES", "PSQL", "SLEEPER", "THREADS", "Real", "of_postgres"]


@dataclass(frozen=True)
class Real:
    """A program in one configuration.

    Attributes:
        kinds, name: that are right.
        command: run by a shell in a folder with text (`words`, 30 MB) and C files; None: a running process is looked at.
        beside: shell commands that are started before, in turn; without `command` and `pid` the first is looked at.
        pid: a shell command that prints the process to look at.
        setup: run before everything, until it ends.
    """

    title: str
    needs: tuple[str, ...]
    kinds: tuple[str, ...]
    name: str
    command: str | None = None
    beside: tuple[str, ...] = ()
    pid: str = ""
    setup: str = ""


_REDIS = "exec redis-server --enable-debug-command yes --port 17391 --save '' --appendonly no"
_LOG = "exec redis-server --port 17391 --save '' --appendonly yes --appendfsync"
_NGINX = "exec nginx -p . -c nginx.conf"
_WRK = "exec wrk -t1 -c8 -d60 http://127.0.0.1:17392"
SLEEPER = "exec python3 slow_server.py sleeps"
_PG = "exec runuser -u postgres -- postgres -D pg -p 17395 -k /tmp"
_PG_SETUP = (
    "rm -rf pg; mkdir pg; chown postgres pg; chmod 700 pg; runuser -u postgres -- initdb -D pg -A trust >/dev/null; "
    "runuser -u postgres -- pg_ctl -D pg -w -o '-p 17395 -k /tmp' start >/dev/null; "
    "pgbench -h /tmp -p 17395 -U postgres -i -s 4 -q postgres; runuser -u postgres -- pg_ctl -D pg -w stop >/dev/null"
)
_BENCH = "exec pgbench -h /tmp -p 17395 -U postgres -n -T 60"
PSQL = "exec psql -h /tmp -p 17395 -U postgres -q"
_LUA = "exec redis-cli -p 17391 -r 1000000 eval 'local x=0 for i=1,3000000 do x=x+i end return x' 0"
THREADS = ("thread", "cpu")


def of_postgres(
    title: str,
    asker: str,
    kinds: tuple[str, ...],
    name: str,
    command: str | None = None,
    beside: tuple[str, ...] = (),
) -> Real:
    """A server of PostgreSQL is started first; without `command` it is what is looked at.

    Args:
        asker: the program that asks it.
    """
    pid = "" if command else "head -1 pg/postmaster.pid"
    return Real(title, (asker, "postgres"), kinds, name, command, (_PG, *beside), pid, _PG_SETUP)


CASES = (
    Real("pigz -p2", ("pigz",), THREADS, "compress|deflate|pigz|CPU", "pigz -p2 -11 -c words > /dev/null"),
    Real(
        "pigz from a slow pipe",
        ("pigz", "pv"),
        ("process", "timer"),
        "pv",
        "pv -q -L 2m words | pigz -p2 > /dev/null",
    ),
    Real(
        "pigz into a slow pipe",
        ("pigz", "pv"),
        ("process", "timer"),
        "pv",
        "pigz -p2 -1 -c words | pv -q -L 500k > /dev/null",
    ),
    Real(
        "pigz by number, from a slow pipe",
        ("pigz", "pv"),
        ("process", "timer", "load"),
        "pv|load",
        beside=("pv -q -L 2m words | pigz -p2 > /dev/null",),
        pid="pgrep -n pigz",
    ),
    Real("pbzip2 -p2", ("pbzip2",), THREADS, "consumer|BZ2|pbzip2|CPU", "pbzip2 -p2 -c words > /dev/null"),
    Real("xz -T2", ("xz",), THREADS, "xz|lzma|worker|CPU", "xz -T2 --block-size=1MiB -c words > /dev/null"),
    Real(
        "xz -T2 into a slow pipe",
        ("xz", "pv"),
        ("process", "timer"),
        "pv",
        "xz -0 -T2 --block-size=1MiB -c words | pv -q -L 300k > /dev/null",
    ),
    Real("zstd -T2 -19", ("zstd",), THREADS, "zstd|ZSTD|POOL|CPU", "zstd -T2 -15 -c words > /dev/null"),
    Real(
        "zstd -T2 into a slow pipe",
        ("zstd", "pv"),
        ("process", "timer"),
        "pv",
        "zstd -T2 -3 -c words | pv -q -L 1m > /dev/null",
    ),
    Real(
        "sort --parallel=2",
        ("sort",),
        THREADS,
        "sort|CPU|compare|merge|coll",
        "exec sort --parallel=2 lines -o /dev/null",
    ),
    Real(
        "sort from a slow pipe",
        ("sort", "pv"),
        ("process", "timer"),
        "pv",
        "pv -q -L 2m lines | sort --parallel=2 > /dev/null",
    ),
    Real("gzip, one thread", ("gzip",), ("thread",), "gzip|deflate", "gzip -9 -c words > /dev/null"),
    Real(
        "tar | gzip",
        ("tar",),
        ("process", "thread"),
        "gzip",
        "tar -c words words1 words2 | gzip -6 > /dev/null",
    ),
    Real(
        "tar | gzip | slow",
        ("tar", "pv"),
        ("process", "timer"),
        "pv",
        "tar -c words words1 words2 | gzip -1 | pv -q -L 500k > /dev/null",
    ),
    Real("make -j2", ("make", "cc"), ("process", "cpu"), "cc1|CPU", "make -s -B -j2"),
    Real(
        "make -j2, one long compile", ("make", "cc"), ("process",), "cc1", "make -s -B -j2 -f Makefile.long"
    ),
    Real(
        "make -j2, recipes that sleep",
        ("make",),
        ("timer", "process"),
        "sleep",
        "make -s -B -j2 -f Makefile.wait",
    ),
    Real(
        "dd, every block durable",
        ("dd",),
        ("disk",),
        "",
        "dd if=/dev/zero of=out bs=4k count=100000 oflag=dsync",
    ),
    Real(
        "find, cold nothing",
        ("find",),
        ("thread", "process"),
        "find",
        "for i in $(seq 40); do find /usr -name '*.zzz'; done",
    ),
    Real(
        "ffmpeg, filter and encoder",
        ("ffmpeg",),
        THREADS,
        "x264|enc|ffmpeg|CPU|filter|thread",
        "ffmpeg -loglevel error -y -f lavfi -i testsrc=size=640x360:rate=30 -t 60 -vf gblur=sigma=20 -c:v mpeg4 -f null -",
    ),
    Real(
        "ffmpeg, a slow filter",
        ("ffmpeg",),
        THREADS,
        "ffmpeg|nlmeans|filter|CPU",
        "ffmpeg -loglevel error -nostdin -filter_threads 1 -f lavfi -i testsrc=size=640x360:rate=30 -t 600 -vf nlmeans -threads 1 -c:v mpeg4 -f null -",
    ),
    Real(
        "ffmpeg -re",
        ("ffmpeg",),
        ("timer", "load"),
        "ffmpeg|load",
        "ffmpeg -loglevel error -nostdin -re -f lavfi -i testsrc=size=320x180:rate=30 -t 60 -threads 1 -c:v mpeg4 -f null -",
    ),
    Real(
        "ffmpeg into a slow pipe",
        ("ffmpeg", "pv"),
        ("process", "timer"),
        "pv",
        "ffmpeg -loglevel error -nostdin -f lavfi -i testsrc=size=320x180:rate=30 -t 600 -threads 1 -c:v mpeg4 -f avi - | pv -q -L 100k > /dev/null",
    ),
    Real(
        "GStreamer, an encoder",
        ("gst-launch-1.0",),
        THREADS,
        "queue1|theora",
        "exec gst-launch-1.0 -q videotestsrc num-buffers=20000 ! video/x-raw,width=640,height=360 ! queue ! videobalance saturation=0.5 ! queue ! theoraenc ! fakesink",
    ),
    Real(
        "GStreamer, as fast as shown",
        ("gst-launch-1.0",),
        ("timer",),
        "",
        "exec gst-launch-1.0 -q videotestsrc is-live=true ! video/x-raw,width=320,height=180 ! queue ! videobalance saturation=0.5 ! queue ! fakesink sync=true",
    ),
    Real(
        "redis under load",
        ("redis-server", "redis-benchmark"),
        ("thread", "load"),
        "redis|load",
        beside=(_REDIS, "exec redis-benchmark -p 17391 -q -n 10000000 -c 20 -t get"),
    ),
    Real(
        "redis, pipelined",
        ("redis-server", "redis-benchmark"),
        ("thread", "load"),
        "redis|load",
        beside=(_REDIS, "exec redis-benchmark -p 17391 -q -n 100000000 -c 20 -P 64 -t set"),
    ),
    Real("redis, idle", ("redis-server",), ("load",), "load", beside=(_REDIS,)),
    Real("redis, a slow script", ("redis-server",), ("thread",), "redis", beside=(_REDIS, _LUA)),
    Real("redis-cli, a slow script", ("redis-server",), ("process",), "redis-server", _LUA, beside=(_REDIS,)),
    Real(
        "redis, made to sleep",
        ("redis-server",),
        ("timer", "thread"),
        "redis",
        beside=(_REDIS, "exec redis-cli -p 17391 -r 1000 debug sleep 0.2"),
    ),
    Real(
        "redis-cli, a server that sleeps",
        ("redis-server",),
        ("process", "timer"),
        "redis-server",
        "exec redis-cli -p 17391 -r 1000 debug sleep 0.2",
        beside=(_REDIS,),
    ),
    Real(
        "redis-cli, nothing comes",
        ("redis-server",),
        ("load", "process", "network"),
        "load|redis|network",
        "exec redis-cli -p 17391 blpop nothing 0",
        beside=(_REDIS,),
    ),
    Real(
        "redis, every write durable",
        ("redis-server", "redis-benchmark"),
        ("disk",),
        "",
        beside=(f"{_LOG} always", "exec redis-benchmark -p 17391 -q -n 10000000 -c 2 -t set"),
    ),
    Real(
        "redis, durable each second",
        ("redis-server", "redis-benchmark"),
        ("thread", "load"),
        "redis|load",
        beside=(f"{_LOG} everysec", "exec redis-benchmark -p 17391 -q -n 10000000 -c 20 -t set"),
    ),
    Real(
        "redis-benchmark of a durable redis",
        ("redis-server", "redis-benchmark"),
        ("process", "disk"),
        "redis-server|disk|aof",
        "exec redis-benchmark -p 17391 -q -n 10000000 -c 2 -t set",
        beside=(f"{_LOG} always",),
    ),
    Real(
        "nginx under wrk",
        ("nginx", "wrk"),
        ("thread", "process", "load", "cpu"),
        "nginx|load|CPU",
        beside=(_NGINX, f"{_WRK}/words3"),
    ),
    Real(
        "nginx, gzip -9",
        ("nginx", "wrk"),
        ("thread", "process"),
        "nginx|deflate",
        beside=(_NGINX, f"{_WRK}/packed/words4 -H 'Accept-Encoding: gzip'"),
    ),
    Real(
        "nginx, limit_rate",
        ("nginx", "wrk"),
        ("timer", "load"),
        "nginx|load",
        beside=(_NGINX, f"{_WRK}/slowly/words4"),
    ),
    Real(
        "nginx, limit_req",
        ("nginx", "wrk"),
        ("timer", "load"),
        "nginx|load",
        beside=(_NGINX, f"{_WRK}/queued/words3"),
    ),
    Real(
        "nginx, a slow upstream",
        ("nginx", "wrk"),
        ("process", "timer", "load"),
        "slow_server|python|load",
        beside=(_NGINX, SLEEPER, f"{_WRK}/behind/"),
    ),
    Real(
        "wrk of nginx, limit_rate",
        ("nginx", "wrk"),
        ("process", "timer"),
        "nginx",
        f"{_WRK}/slowly/words4",
        beside=(_NGINX,),
    ),
    Real(
        "wrk of nginx, gzip -9",
        ("nginx", "wrk"),
        ("process",),
        "nginx",
        f"{_WRK}/packed/words4 -H 'Accept-Encoding: gzip'",
        beside=(_NGINX,),
    ),
    Real(
        "curl, its own limit",
        ("nginx", "curl"),
        ("timer",),
        "curl",
        "exec curl -s --limit-rate 300k http://127.0.0.1:17392/words -o /dev/null",
        beside=(_NGINX,),
    ),
    Real(
        "curl of a slow server",
        ("nginx", "curl"),
        ("process", "timer"),
        "nginx",
        "exec curl -s http://127.0.0.1:17392/slowly/words -o /dev/null",
        beside=(_NGINX,),
    ),
    Real(
        "haproxy, a slow server behind",
        ("haproxy", "wrk"),
        ("process", "timer", "load"),
        "slow_server|python|load",
        beside=("exec haproxy -db -f haproxy.cfg", SLEEPER, "exec wrk -t1 -c4 -d60 http://127.0.0.1:17396/"),
    ),
    Real(
        "python -m http.server, asked seldom",
        ("curl",),
        ("load",),
        "load",
        beside=(
            "exec python3 -m http.server 17393 --bind 127.0.0.1",
            "while :; do curl -s http://127.0.0.1:17393/nginx.conf; sleep 0.05; done",
        ),
    ),
    of_postgres(
        "PostgreSQL, durable commits",
        "pgbench",
        ("disk", "process"),
        "",
        beside=(f"{_BENCH} -c 1 postgres",),
    ),
    of_postgres(
        "pgbench, durable commits",
        "pgbench",
        ("process", "disk"),
        "postgres|wal|disk",
        f"{_BENCH} -c 1 postgres",
    ),
    of_postgres(
        "PostgreSQL, a table locked",
        "pgbench",
        ("lock", "timer", "process"),
        "postgres",
        beside=(
            f"{PSQL} -c 'begin; lock table pgbench_accounts; select pg_sleep(60)' postgres",
            f"{_BENCH} -c 2 postgres",
        ),
    ),
    of_postgres(
        "pgbench, a table locked",
        "pgbench",
        ("lock", "timer", "process"),
        "postgres",
        f"{_BENCH} -c 2 postgres",
        beside=(f"{PSQL} -c 'begin; lock table pgbench_accounts; select pg_sleep(60)' postgres",),
    ),
    of_postgres(
        "PostgreSQL, a long query",
        "psql",
        ("process",),
        "postgres",
        beside=(
            f"{PSQL} -c 'select sum(a.x * b.x % 7) from generate_series(1, 3000) a(x), generate_series(1, 100000) b(x)' postgres",
        ),
    ),
    of_postgres(
        "psql, a long query",
        "psql",
        ("process",),
        "postgres",
        f"{PSQL} -c 'select sum(a.x * b.x % 7) from generate_series(1, 3000) a(x), generate_series(1, 100000) b(x)' postgres",
    ),
    of_postgres(
        "psql, pg_sleep",
        "psql",
        ("process", "timer"),
        "postgres",
        f"{PSQL} -c 'select pg_sleep(60)' postgres",
    ),
    of_postgres(
        "pgbench -S",
        "pgbench",
        ("process",),
        "postgres",
        f"{_BENCH} -S -c 1 postgres",
    ),
    of_postgres(
        "PostgreSQL, asked at a rate",
        "pgbench",
        ("load",),
        "load",
        beside=(f"{_BENCH} -S -c 1 --rate=50 postgres",),
    ),
    of_postgres(
        "pgbench --rate",
        "pgbench",
        ("timer",),
        "pgbench",
        f"{_BENCH} -S -c 1 --rate=50 postgres",
    ),
    Real(
        "gunicorn, computes",
        ("py:gunicorn", "wrk"),
        ("process",),
        "gunicorn",
        beside=(
            "exec $PYTHON -m gunicorn -w 2 -b 127.0.0.1:17398 wsgi_app:computes",
            "exec wrk -t1 -c4 -d60 http://127.0.0.1:17398/",
        ),
    ),
    Real(
        "gunicorn, a slow upstream",
        ("py:gunicorn", "wrk"),
        ("process", "timer"),
        "slow_server",
        beside=(
            "exec $PYTHON -m gunicorn -w 2 -b 127.0.0.1:17398 wsgi_app:sleeps",
            SLEEPER,
            "exec wrk -t1 -c4 -d60 http://127.0.0.1:17398/",
        ),
    ),
    Real(
        "gunicorn, a slow client",
        ("py:gunicorn", "curl"),
        ("load", "process", "network", "timer"),
        "load|curl",
        beside=(
            "exec $PYTHON -m gunicorn -w 1 -b 127.0.0.1:17398 wsgi_app:large",
            "exec curl -s --limit-rate 300k http://127.0.0.1:17398/ -o /dev/null",
        ),
    ),
    Real(
        "gunicorn, idle",
        ("py:gunicorn",),
        ("load",),
        "load",
        beside=("exec $PYTHON -m gunicorn -w 2 -b 127.0.0.1:17398 wsgi_app:computes",),
    ),
    Real(
        "uvicorn, a handler that blocks",
        ("py:uvicorn", "wrk"),
        ("timer", "thread"),
        "uvicorn|blocks",
        beside=(
            "exec $PYTHON -m uvicorn --log-level error --port 17399 asgi_app:blocks",
            "exec wrk -t1 -c4 -d60 http://127.0.0.1:17399/",
        ),
    ),
    Real(
        "uvicorn, a handler that awaits",
        ("py:uvicorn", "wrk"),
        ("load", "timer"),
        "load|uvicorn|awaits",
        beside=(
            "exec $PYTHON -m uvicorn --log-level error --port 17399 asgi_app:awaits",
            "exec wrk -t1 -c4 -d60 http://127.0.0.1:17399/",
        ),
    ),
    Real(
        "uvicorn, computes",
        ("py:uvicorn", "wrk"),
        ("thread",),
        "uvicorn|computes",
        beside=(
            "exec $PYTHON -m uvicorn --log-level error --port 17399 asgi_app:computes",
            "exec wrk -t1 -c4 -d60 http://127.0.0.1:17399/",
        ),
    ),
    Real(
        "dask, one slow worker",
        ("py:distributed",),
        ("process", "thread"),
        "slow|worker|multiprocessing|dask|Thr",
        beside=("exec $PYTHON dask_app.py", "sleep 2"),
    ),
    Real(
        "sqlite3, each insert durable",
        ("sqlite3",),
        ("disk",),
        "",
        'rm -f sales.db; sqlite3 sales.db < sales.sql; seq 100000 | awk \'{print "insert into sales values(NULL, \\"x\\");"}\' | sqlite3 sales.db',
    ),
    Real(
        "rsync of many files",
        ("rsync",),
        ("process", "thread", "disk"),
        "rsync|disk",
        "for i in 1 2 3 4 5 6; do rm -rf copy; rsync -a /usr/include/ copy; done",
    ),
    Real(
        "rsync --bwlimit",
        ("rsync",),
        ("timer", "process"),
        "rsync",
        "rm -rf copy; rsync --bwlimit=1000 words copy",
    ),
    Real(
        "git gc",
        ("git",),
        ("process", "thread"),
        "git|delta",
        "rm -rf repo; git init -q repo; cp part*.c words* repo; cd repo; git add .; git -c user.name=a -c user.email=a@b commit -q -m a; while :; do git -c pack.threads=1 repack -q -a -d -F --window=250; done",
    ),
    Real(
        "java, its collector",
        ("javac",),
        THREADS,
        "GC|ParGC|PSP|CPU|Litter|java",
        "exec java -Xmx400m -XX:+UseParallelGC -cp . Litter",
        setup="javac Litter.java",
    ),
    Real(
        "java, a thread between queues",
        ("javac",),
        ("thread",),
        "scorer",
        "exec java -cp . Pool",
        setup="javac Pool.java",
    ),
    Real(
        "node, a cluster",
        ("node", "wrk"),
        ("process", "cpu"),
        "cluster|node|CPU",
        beside=("exec node cluster.js", "exec wrk -t1 -c4 -d60 http://127.0.0.1:17397/"),
    ),
    Real(
        "memcached, idle",
        ("memcached",),
        ("load",),
        "load",
        beside=("exec memcached -u root -p 17389 -l 127.0.0.1",),
    ),
    Real("watch, every second", ("watch",), ("timer",), "watch", "TERM=xterm exec watch -n 0.5 -t true"),
    Real("tail -f of a quiet file", ("tail",), ("load", "timer"), "load|tail", "exec tail -n1 -f Makefile"),
    Real(
        "xargs -P2 of a checksum",
        ("xargs",),
        ("process", "cpu"),
        "sha512sum|CPU",
        "seq 400 | xargs -P2 -I{} sha512sum words",
    ),
    Real(
        "openssl speed -multi 2",
        ("openssl",),
        ("process", "cpu"),
        "openssl|CPU",
        "exec openssl speed -multi 2 -seconds 10 sha512",
    ),
    Real(
        "a shell that forks",
        ("sh",),
        ("thread", "process"),
        "sh|true|expr",
        "i=0; while [ $i -lt 1000000 ]; do i=$(expr $i + 1); done",
    ),
    Real(
        "socat between a slow writer",
        ("socat", "pv"),
        ("process", "timer"),
        "pv",
        "pv -q -L 500k words | socat - - | cat > /dev/null",
    ),
    Real(
        "dd from urandom | sha256sum",
        ("sha256sum",),
        ("process",),
        "sha256sum|dd",
        "dd if=/dev/urandom bs=1M count=100000 | sha512sum | cat",
    ),
)
