"""The second table of `any_program_real`: other programs, whose limits were written down before the first run.

Over 400 lines: one table, of which each row is a program's command and its truth.
"""

# ruff: noqa: E501 - a table of commands

from __future__ import annotations

from benchmarks.any_program_real_cases import Real

__all__ = ["MORE"]

_SLEEPER = "exec python3 slow_server.py sleeps"
_MARIA = "exec mariadbd --no-defaults --user=root --datadir=$PWD/maria --port=17361 --bind-address=127.0.0.1 --socket=/tmp/any-17361.sock --skip-grant-tables --innodb-flush-log-at-trx-commit=1"
_MARIA_SETUP = "rm -rf maria; mariadb-install-db --no-defaults --user=root --datadir=$PWD/maria --auth-root-authentication-method=normal >/dev/null"
_SQL = "exec mariadb --no-defaults --socket=/tmp/any-17361.sock -e"
_LISTENS = "pgrep -n mariadbd"
_THREADS = ("thread", "cpu")
_PG = "exec runuser -u postgres -- postgres -D pg -p 17395 -k /tmp"
_PG_SETUP = (
    "rm -rf pg; mkdir pg; chown postgres pg; chmod 700 pg; runuser -u postgres -- initdb -D pg -A trust >/dev/null; "
    "runuser -u postgres -- pg_ctl -D pg -w -o '-p 17395 -k /tmp' start >/dev/null; "
    "pgbench -h /tmp -p 17395 -U postgres -i -s 4 -q postgres; runuser -u postgres -- pg_ctl -D pg -w stop >/dev/null"
)
_PSQL = "exec psql -h /tmp -p 17395 -U postgres -q"
_QUOTA = (
    "g=/sys/fs/cgroup/cpu/any-17370; mkdir -p $g; echo 100000 > $g/cpu.cfs_period_us; "
    "echo 30000 > $g/cpu.cfs_quota_us; echo $$ > $g/tasks; "
)

MORE = (
    Real(
        "tar | zstd -19",
        ("zstd",),
        ("process", "thread"),
        "zstd",
        "tar -c words words1 words2 | zstd -T1 -19 > /dev/null",
    ),
    Real(
        "tar | lz4 | ssh-like slow writer",
        ("lz4", "pv"),
        ("process", "timer"),
        "pv",
        "tar -c words words1 words2 | lz4 -1 | pv -q -L 800k | cat > /dev/null",
    ),
    Real("bzip2, one thread", ("bzip2",), ("thread",), "bzip2|BZ2", "exec bzip2 -9 -c words > /dev/null"),
    Real(
        "openssl speed -multi 4",
        ("openssl",),
        ("cpu", "process"),
        "CPU|openssl",
        "exec openssl speed -multi 4 -seconds 10 sha256",
    ),
    Real(
        "openssl, a key of primes",
        ("openssl",),
        ("thread",),
        "openssl|BN_|bn_",
        "exec openssl prime -generate -bits 8192 -safe",
    ),
    Real(
        "gpg, a long hash",
        ("gpg",),
        ("thread", "process"),
        "gpg",
        "cat lines lines lines lines lines lines | gpg --no-options --homedir . --batch --print-md sha512",
    ),
    Real(
        "sqlite3, a join without an index",
        ("sqlite3",),
        ("thread",),
        "sqlite",
        "exec sqlite3 :memory: 'with recursive c(x) as (select 1 union all select x+1 from c where x<200000) select count(*) from c a, c b where a.x*7=b.x%13'",
    ),
    Real(
        "sqlite3, one waits for the other's write",
        ("sqlite3",),
        ("timer", "lock", "process"),
        "sqlite",
        "exec sqlite3 -cmd '.timeout 60000' held.db 'insert into t values(2)'",
        beside=(
            "sqlite3 held.db 'create table if not exists t(x)'; (echo 'begin exclusive; insert into t values(1);'; sleep 60) | sqlite3 held.db",
        ),
    ),
    Real(
        "git gc, two threads",
        ("git",),
        ("process", "thread", "cpu"),
        "git|delta|CPU",
        "rm -rf repo2; git init -q repo2; cp part*.c words* repo2; cd repo2; git add .; git -c user.name=a -c user.email=a@b commit -q -m a; while :; do git -c pack.threads=2 gc -q --aggressive --prune=now --force; git -c pack.threads=2 repack -q -a -d -F --window=250; done",
    ),
    Real(
        "cmake and ninja -j2",
        ("cmake", "ninja", "cc"),
        ("process", "cpu"),
        "cc1|CPU",
        "exec ninja -C ninja -j2",
        setup="rm -rf ninja; mkdir -p ninja-src; cp part*.c ninja-src; cd ninja-src; printf 'cmake_minimum_required(VERSION 3.10)\\nproject(a C)\\nfile(GLOB s part*.c)\\nadd_library(a STATIC ${s})\\n' > CMakeLists.txt; cmake -G Ninja -S . -B ../ninja -DCMAKE_BUILD_TYPE=Release > /dev/null",
    ),
    Real(
        "c++ of one long file",
        ("g++",),
        ("process", "thread"),
        "cc1plus",
        "exec g++ -std=c++20 -O2 -c regex.cpp -o /dev/null",
    ),
    Real(
        "rustc -O",
        ("rustc",),
        ("thread", "process"),
        "rustc|opt|LLVM|cgu|codegen",
        "for i in 1 2 3 4 5 6 7 8; do rustc -O --crate-type=lib long.rs -o liblong.rlib; done",
    ),
    Real(
        "go build",
        ("go",),
        ("process", "cpu"),
        "compile|CPU",
        "GOCACHE=$PWD/gocache GOFLAGS=-mod=mod exec go build -a -o /dev/null net/http",
    ),
    Real(
        "find | xargs -P2 gzip",
        ("xargs", "gzip"),
        ("process", "cpu"),
        "gzip|CPU",
        "for i in 1 2 3 4 5 6 7 8 9; do cat words > big$i; done; ls big* | xargs -P2 -n1 gzip -9 -f",
    ),
    Real(
        "awk | sort | uniq",
        ("awk", "sort"),
        ("process", "thread"),
        "sort",
        "awk '{print $1 $1}' lines lines | sort --parallel=1 | uniq -c > /dev/null",
    ),
    Real(
        "grep of a slow log", ("grep", "pv"), ("process", "timer"), "pv", "pv -q -L 200k lines | grep -c abc"
    ),
    Real("bc, many digits", ("bc",), ("thread",), "bc", "echo 'scale=6000; 4*a(1)' | exec bc -l"),
    Real(
        "dd, synchronous",
        ("dd",),
        ("disk",),
        "",
        "exec dd if=/dev/zero of=synced bs=16k count=100000 oflag=sync",
    ),
    Real(
        "shred, synchronous passes",
        ("shred",),
        ("disk", "thread"),
        "",
        "head -c 40000000 words3 words > s; while :; do shred -n 2 s; done",
    ),
    Real(
        "stress-ng of a processor",
        ("stress-ng",),
        ("process", "thread"),
        "stress-ng",
        "exec stress-ng --cpu 1 --cpu-method fft -t 60",
    ),
    Real(
        "stress-ng, four on two CPUs",
        ("stress-ng",),
        ("cpu", "process"),
        "CPU|stress",
        "exec stress-ng --cpu 4 -t 60",
    ),
    Real(
        "stress-ng, loaded by a third",
        ("stress-ng",),
        ("timer",),
        "stress",
        "exec stress-ng --cpu 1 --cpu-load 30 -t 60",
    ),
    Real(
        "stress-ng, writes and syncs",
        ("stress-ng",),
        ("disk", "process"),
        "",
        "exec stress-ng --sync-file 1 -t 60",
    ),
    Real("xz under a quota", ("xz",), ("cpu",), "quota", f"{_QUOTA} exec xz -9 -c words > /dev/null"),
    Real(
        "xz on a CPU with a neighbour",
        ("xz",),
        ("cpu",),
        "neighbour|CPU",
        "exec taskset -c 1 xz -9 -c words > /dev/null",
        beside=("exec taskset -c 1 sh -c 'while :; do :; done'",),
    ),
    Real(
        "nice xz on a CPU with a neighbour",
        ("xz",),
        ("cpu",),
        "neighbour|CPU",
        "exec nice -n 19 taskset -c 1 xz -9 -c words > /dev/null",
        beside=("exec taskset -c 1 gzip -9 -c words words words words words > /dev/null",),
    ),
    Real(
        "socat, each connection a slow child",
        ("socat",),
        ("timer", "process"),
        "sleep",
        beside=(
            "exec socat TCP-LISTEN:17340,fork,reuseaddr SYSTEM:'sleep 0.1; echo done'",
            "while :; do socat -u TCP:127.0.0.1:17340 - > /dev/null; done",
        ),
    ),
    Real(
        "nc of a slow reader",
        ("nc", "pv"),
        ("process", "timer", "network"),
        "pv|nc",
        "exec nc -N 127.0.0.1 17341 < words",
        beside=("nc -l -p 17341 | pv -q -L 500k > /dev/null",),
    ),
    Real(
        "nc from a slow writer",
        ("nc", "pv"),
        ("process", "timer"),
        "pv",
        "pv -q -L 500k words | nc -N 127.0.0.1 17342",
        beside=("exec nc -l -p 17342 > /dev/null",),
    ),
    Real("nc, nothing comes", ("nc",), ("load",), "load", beside=("exec nc -l -p 17343",)),
    Real(
        "wget, its own limit",
        ("wget", "nginx"),
        ("timer",),
        "wget",
        "exec wget -q --limit-rate=300k -O /dev/null http://127.0.0.1:17392/words",
        beside=("exec nginx -p . -c nginx.conf",),
    ),
    Real(
        "wget of a server that sleeps",
        ("wget",),
        ("process", "timer"),
        "slow_server|python",
        "while :; do wget -q -O /dev/null http://127.0.0.1:17394/; done",
        beside=(_SLEEPER,),
    ),
    Real(
        "ab of a server that sleeps",
        ("ab",),
        ("process", "timer"),
        "slow_server|python",
        "exec ab -q -t 60 -n 1000000 -c 4 http://127.0.0.1:17394/",
        beside=(_SLEEPER,),
    ),
    Real(
        "ab of a node that computes",
        ("ab", "node"),
        ("process",),
        "node|server.js",
        "exec ab -q -t 60 -n 1000000 -c 4 http://127.0.0.1:17344/",
        beside=("exec node server.js computes 17344",),
    ),
    Real(
        "node, a handler that computes",
        ("ab", "node"),
        ("thread",),
        "node|server.js",
        beside=(
            "exec node server.js computes 17345",
            "exec ab -q -t 60 -n 1000000 -c 4 http://127.0.0.1:17345/",
        ),
    ),
    Real(
        "node, a handler that waits 50 ms",
        ("ab", "node"),
        ("timer", "load"),
        "node|server.js|load",
        beside=(
            "exec node server.js waits 17346",
            "exec ab -q -t 60 -n 1000000 -c 4 http://127.0.0.1:17346/",
        ),
    ),
    Real(
        "node, hashes in its pool",
        ("ab", "node"),
        ("thread", "cpu", "process"),
        "node|server.js|pool|worker|CPU|pbkdf|sha",
        beside=("exec node server.js pool 17347", "exec ab -q -t 60 -n 1000000 -c 8 http://127.0.0.1:17347/"),
    ),
    Real(
        "node that fetches from a server that sleeps",
        ("node",),
        ("process", "timer"),
        "slow_server|python",
        "exec node fetches.js",
        beside=(_SLEEPER,),
    ),
    Real(
        "ruby, a server that computes",
        ("ruby", "ab"),
        ("thread",),
        "ruby",
        beside=(
            "exec ruby server.rb computes 17348",
            "exec ab -q -t 60 -n 1000000 -c 2 http://127.0.0.1:17348/",
        ),
    ),
    Real(
        "ruby, a server that sleeps",
        ("ruby", "ab"),
        ("timer", "load"),
        "ruby|load",
        beside=(
            "exec ruby server.rb sleeps 17349",
            "exec ab -q -t 60 -n 1000000 -c 2 http://127.0.0.1:17349/",
        ),
    ),
    Real(
        "perl, a server that forks and computes",
        ("perl", "ab"),
        ("process", "thread"),
        "perl",
        beside=(
            "exec perl server.pl computes 17350",
            "exec ab -q -t 60 -n 1000000 -c 1 http://127.0.0.1:17350/",
        ),
    ),
    Real(
        "perl, two children, one has more",
        ("perl",),
        ("process",),
        "perl",
        "exec perl -e 'for my $n (1, 9) { next if fork; my $x = 0; $x += $_ % 7 for 1 .. $n * 30_000_000; exit } wait; wait'",
    ),
    Real(
        "go, a server that computes",
        ("go", "ab"),
        ("thread",),
        "main|goroutine|server|conn",
        beside=("exec ./goserver computes 17351", "exec ab -q -t 60 -n 1000000 -c 1 http://127.0.0.1:17351/"),
        setup="GOCACHE=/tmp/any-gocache go build -o goserver goserver.go",
    ),
    Real(
        "go, a server that sleeps",
        ("go", "ab"),
        ("timer", "load"),
        "main|goroutine|server|conn|load",
        beside=("exec ./goserver sleeps 17352", "exec ab -q -t 60 -n 1000000 -c 4 http://127.0.0.1:17352/"),
        setup="GOCACHE=/tmp/any-gocache go build -o goserver goserver.go",
    ),
    Real(
        "java, javac of many classes",
        ("javac",),
        ("thread", "cpu"),
        "javac|main|Thread|Compiler|C1|C2|CPU|java",
        "mkdir -p classes; exec javac -d classes many/*.java",
    ),
    Real(
        "python -m http.server, a slow client",
        ("curl",),
        ("load", "process", "network", "timer"),
        "load|curl",
        beside=(
            "exec python3 -m http.server 17353 --bind 127.0.0.1",
            "exec curl -s --limit-rate 300k http://127.0.0.1:17353/words -o /dev/null",
        ),
    ),
    Real(
        "python -m http.server, idle",
        (),
        ("load",),
        "load",
        beside=("exec python3 -m http.server 17354 --bind 127.0.0.1",),
    ),
    Real(
        "gunicorn threads that sleep",
        ("py:gunicorn", "wrk"),
        ("timer", "process"),
        "gunicorn|naps",
        beside=(
            "exec $PYTHON -m gunicorn -w 1 --threads 4 -b 127.0.0.1:17355 more_wsgi:naps",
            "exec wrk -t1 -c8 -d60 http://127.0.0.1:17355/",
        ),
    ),
    Real(
        "gunicorn threads that compute in Python",
        ("py:gunicorn", "wrk"),
        ("lock", "process", "thread"),
        "GIL|gunicorn",
        beside=(
            "exec $PYTHON -m gunicorn -w 1 --threads 4 -b 127.0.0.1:17356 more_wsgi:counts",
            "exec wrk -t1 -c8 -d60 http://127.0.0.1:17356/",
        ),
    ),
    Real(
        "celery, a task that computes",
        ("py:celery", "redis-server"),
        ("process",),
        "celery|ForkPool|python",
        beside=(
            "exec redis-server --port 17357 --save ''",
            "exec $PYTHON -m celery -A more_tasks worker -c 2 -l ERROR",
            "exec $PYTHON -c 'import more_tasks, time\nwhile True: more_tasks.counts.delay(); time.sleep(0.01)'",
        ),
        pid="pgrep -o -f 'celery -A more_tasks'",
    ),
    Real(
        "celery, a task that sleeps",
        ("py:celery", "redis-server"),
        ("timer", "process"),
        "celery|ForkPool|python",
        beside=(
            "exec redis-server --port 17357 --save ''",
            "exec $PYTHON -m celery -A more_tasks worker -c 2 -l ERROR",
            "exec $PYTHON -c 'import more_tasks, time\nwhile True: more_tasks.naps.delay(); time.sleep(0.01)'",
        ),
        pid="pgrep -o -f 'celery -A more_tasks'",
    ),
    Real(
        "dask in threads, pure Python",
        ("py:dask",),
        ("lock", "thread"),
        "GIL|interpreter|ThreadPool",
        "exec $PYTHON -c 'import dask\nfor _ in range(99): dask.compute(*[dask.delayed(lambda: sum(i * i for i in range(2_000_000)))() for _ in range(8)], scheduler=\"threads\", num_workers=4)'",
    ),
    Real(
        "nginx before a node that computes",
        ("nginx", "node", "wrk"),
        ("process", "load"),
        "node|server.js|load",
        beside=(
            "exec nginx -p . -c proxy.conf",
            "exec node server.js computes 17358",
            "exec wrk -t1 -c4 -d60 http://127.0.0.1:17359/",
        ),
    ),
    Real(
        "haproxy before a node that computes",
        ("haproxy", "node", "wrk"),
        ("process", "load"),
        "node|server.js|load",
        beside=(
            "exec haproxy -db -f more.cfg",
            "exec node server.js computes 17358",
            "exec wrk -t1 -c4 -d60 http://127.0.0.1:17360/",
        ),
    ),
    Real(
        "memcached, asked in turn",
        ("memcached",),
        ("load",),
        "load",
        beside=("exec memcached -u root -p 17362 -l 127.0.0.1", "exec python3 more_cache.py 17362"),
    ),
    Real(
        "a client of memcached that computes",
        ("memcached",),
        ("thread",),
        "python|counts|more_cache",
        "exec python3 more_cache.py 17363 counts",
        beside=("exec memcached -u root -p 17363 -l 127.0.0.1",),
    ),
    Real("mosquitto, idle", ("mosquitto",), ("load",), "load", beside=("exec mosquitto -p 17364",)),
    Real(
        "mosquitto_sub, nothing comes",
        ("mosquitto", "mosquitto_sub"),
        ("load", "process", "network"),
        "load|mosquitto|network",
        "exec mosquitto_sub -p 17364 -t a",
        beside=("exec mosquitto -p 17364",),
    ),
    Real(
        "mosquitto_sub of a slow publisher",
        ("mosquitto", "mosquitto_sub", "pv"),
        ("load", "process", "timer", "network"),
        "load|mosquitto|pv|network",
        "exec mosquitto_sub -p 17365 -t a",
        beside=("exec mosquitto -p 17365", "pv -q -L 20k lines | mosquitto_pub -p 17365 -t a -l"),
    ),
    Real(
        "mariadb, idle", ("mariadbd",), ("load",), "load", beside=(_MARIA,), setup=_MARIA_SETUP, pid=_LISTENS
    ),
    Real(
        "mariadb client, sleep(60)",
        ("mariadbd",),
        ("process", "timer"),
        "mariadb",
        f"{_SQL} 'select sleep(60)'",
        beside=(_MARIA,),
        setup=_MARIA_SETUP,
    ),
    Real(
        "mariadb, a long query",
        ("mariadbd",),
        ("thread",),
        "mariadb|one_connection|connection",
        beside=(_MARIA, f"{_SQL} 'select benchmark(2000000000, sha1(1))'"),
        setup=_MARIA_SETUP,
        pid=_LISTENS,
    ),
    Real(
        "mariadb, durable inserts",
        ("mariadbd",),
        ("disk", "thread"),
        "",
        beside=(
            _MARIA,
            "sleep 1; mariadb --no-defaults --socket=/tmp/any-17361.sock -e 'create database if not exists d; create table if not exists d.t(x int) engine=innodb'; seq 1000000 | awk '{print \"insert into d.t values(1);\"}' | mariadb --no-defaults --socket=/tmp/any-17361.sock d",
        ),
        setup=_MARIA_SETUP,
        pid=_LISTENS,
    ),
    Real(
        "mariadb, a table locked",
        ("mariadbd",),
        ("lock", "timer", "process", "thread"),
        "mariadb|connection|lock",
        beside=(
            _MARIA,
            f"{_SQL} 'create database if not exists d; create table if not exists d.u(x int); lock tables d.u write; select sleep(60)'",
            f"{_SQL} 'select * from d.u'",
        ),
        setup=_MARIA_SETUP,
        pid=_LISTENS,
    ),
    Real(
        "a client of mariadb, a table locked",
        ("mariadbd",),
        ("lock", "timer", "process"),
        "mariadb",
        f"{_SQL} 'select * from d.u'",
        beside=(
            _MARIA,
            f"{_SQL} 'create database if not exists d; create table if not exists d.u(x int); lock tables d.u write; select sleep(60)'",
        ),
        setup=_MARIA_SETUP,
    ),
    Real(
        "pg_dump | gzip -9",
        ("pg_dump", "postgres"),
        ("process",),
        "gzip",
        "while :; do pg_dump -h /tmp -p 17395 -U postgres postgres | gzip -9 > /dev/null; done",
        beside=(_PG,),
        setup=_PG_SETUP,
    ),
    Real(
        "PostgreSQL, a row locked by one who thinks",
        ("psql", "postgres"),
        ("lock", "process", "load"),
        "postgres|psql",
        beside=(
            _PG,
            f"(echo 'begin; update pgbench_branches set bbalance=1;'; sleep 60) | {_PSQL} postgres",
            f"{_PSQL} -c 'update pgbench_branches set bbalance=2' postgres",
        ),
        pid="head -1 pg/postmaster.pid",
        setup=_PG_SETUP,
    ),
    Real(
        "flock, held by another",
        ("flock",),
        ("lock", "process"),
        "flock|door|sleep",
        "exec flock door true",
        beside=("exec flock door sleep 60",),
    ),
    Real(
        "a shell that dates and sleeps",
        ("sh",),
        ("timer",),
        "sleep",
        "while :; do date > /dev/null; sleep 0.1; done",
    ),
    Real("top, twice a second", ("top",), ("timer",), "top", "exec top -b -d 0.5"),
    Real("vmstat, every second", ("vmstat",), ("timer",), "vmstat", "exec vmstat 1"),
    Real(
        "tail -f | grep of a slow log",
        ("tail", "grep"),
        ("load", "timer", "process"),
        "load|tail|sleep",
        "exec sh -c 'tail -f slow.log | grep --line-buffered a'",
        beside=("while :; do echo abc >> slow.log; sleep 0.3; done",),
    ),
    Real(
        "x264, slow preset",
        ("ffmpeg",),
        _THREADS,
        "x264|enc|ffmpeg|CPU|av:|frame|thread",
        "exec ffmpeg -loglevel error -nostdin -f lavfi -i testsrc2=size=640x360:rate=30 -t 600 -c:v libx264 -preset slow -threads 2 -f null -",
    ),
    Real(
        "ffmpeg, audio at its own speed",
        ("ffmpeg",),
        ("timer",),
        "ffmpeg",
        "exec ffmpeg -loglevel error -nostdin -re -f lavfi -i sine=frequency=440:sample_rate=44100 -t 60 -c:a flac -f null -",
    ),
    Real(
        "GStreamer, audio through a slow pipe",
        ("gst-launch-1.0", "pv"),
        ("process", "timer"),
        "pv",
        "gst-launch-1.0 -q audiotestsrc num-buffers=1000000 ! queue ! wavenc ! fdsink fd=1 | pv -q -L 200k > /dev/null",
    ),
    Real(
        "redis-cli --latency",
        ("redis-server", "redis-cli"),
        ("timer",),
        "redis-cli",
        "exec redis-cli -p 17366 --latency -i 60 --raw",
        beside=("exec redis-server --port 17366 --save ''",),
    ),
    Real(
        "rsync through a daemon with a limit",
        ("rsync",),
        ("timer", "process"),
        "rsync",
        "rm -rf copy2; exec rsync --bwlimit=800 rsync://127.0.0.1:17367/all/words copy2",
        beside=("exec rsync --daemon --no-detach --config=rsyncd.conf --port=17367",),
    ),
    Real(
        "timeout of a program that computes",
        ("timeout",),
        ("process", "thread"),
        "awk",
        "exec timeout 60 awk 'BEGIN { while (1) x += 1 }'",
    ),
)
