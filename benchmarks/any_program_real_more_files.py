"""What the programs of `any_program_real_more` compile, run and serve."""

# ruff: noqa: E501 - long strings

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.any_program_real_files import HAPROXY_DEFAULTS

__all__ = ["prepared_more"]

_PROXY = """
daemon off; worker_processes 1; pid nginx2.pid; error_log stderr;
events {{ worker_connections 64; }}
http {{ access_log off; default_type text/plain;
  server {{ listen 127.0.0.1:17359; root {root}; location / {{ proxy_pass http://127.0.0.1:17358/; }} }} }}
"""

_HAPROXY = f"""{HAPROXY_DEFAULTS}listen door
    bind 127.0.0.1:17360
    server one 127.0.0.1:17358
"""

_NODE = """
const http = require('http'), crypto = require('crypto');
const answers = {
  computes: (done) => { crypto.pbkdf2Sync('secret', 'salt', 5000, 64, 'sha512'); done(); },
  waits: (done) => setTimeout(done, 50),
  pool: (done) => crypto.pbkdf2('secret', 'salt', 20000, 64, 'sha512', done),
};
http.createServer((request, answer) => answers[process.argv[2]](() => answer.end('ok')))
  .listen(Number(process.argv[3]), '127.0.0.1');
"""

_FETCHES = """
(async () => { while (true) await (await fetch('http://127.0.0.1:17394/')).text(); })();
"""

_RUBY = """
require 'socket'
server = TCPServer.new('127.0.0.1', ARGV[1].to_i)
loop do
  Thread.new(server.accept) do |one|
    while (line = one.gets) && line != "\\r\\n"; end
    if ARGV[0] == 'computes' then x = 0; 300_000.times { |i| x += i % 7 } else sleep 0.05 end
    one.write "HTTP/1.0 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok"
    one.close
  end
end
"""

_PERL = """
use strict; use IO::Socket::INET; $SIG{CHLD} = 'IGNORE';
my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $ARGV[1], Listen => 50, ReuseAddr => 1) or die;
while (1) {
  my $one = $server->accept or next;
  if (fork) { close $one; next; }
  while (my $line = <$one>) { last if $line eq "\\r\\n"; }
  my $x = 0; $x += $_ % 7 for 1 .. 2_000_000;
  print $one "HTTP/1.0 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok"; close $one; exit;
}
"""

_GO = """
package main
import ("net/http"; "os"; "time"; "crypto/sha256")
func work(w http.ResponseWriter, r *http.Request) {
	data := make([]byte, 500000)
	for i := 0; i < 20; i++ { s := sha256.Sum256(data); data[0] = s[0] }
	w.Write([]byte("ok"))
}
func naps(w http.ResponseWriter, r *http.Request) { time.Sleep(50 * time.Millisecond); w.Write([]byte("ok")) }
func main() {
	if os.Args[1] == "computes" { http.HandleFunc("/", work) } else { http.HandleFunc("/", naps) }
	http.ListenAndServe("127.0.0.1:"+os.Args[2], nil)
}
"""

_WSGI = """
import time
def naps(environ, start):
    time.sleep(0.05)
    start("200 OK", [("Content-Length", "2")]); return [b"ok"]
def counts(environ, start):
    sum(i * i for i in range(200_000))
    start("200 OK", [("Content-Length", "2")]); return [b"ok"]
"""

_TASKS = """
import time
from celery import Celery
app = Celery("more_tasks", broker="redis://127.0.0.1:17357/0")
@app.task(ignore_result=True)
def counts(): return sum(i * i for i in range(2_000_000))
@app.task(ignore_result=True)
def naps(): time.sleep(0.1)
"""

_CACHE = """
import socket, sys
def counts(): return sum(i * i for i in range(50_000))
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
while True:
    if len(sys.argv) > 2: counts()
    one.sendall(b"set a 0 0 4\\r\\nabcd\\r\\n"); one.recv(100)
    one.sendall(b"get a\\r\\n"); one.recv(1000)
"""

_REGEX = """
#include <regex>
#include <map>
#include <string>
#include <iostream>
template <int N> struct Chain : Chain<N - 1> { std::map<std::string, std::regex> at; bool f(const std::string& s) { return std::regex_match(s, at[std::to_string(N)]) || Chain<N - 1>::f(s); } };
template <> struct Chain<0> { bool f(const std::string&) { return false; } };
int main() { Chain<400> c; std::cout << c.f("a"); }
"""

_RSYNC = """
use chroot = no
uid = root
gid = root
pid file = {root}/rsyncd.pid
[all]
path = {root}
read only = yes
"""


def prepared_more(folder: Path, ported: Callable[[str], str]) -> None:
    """Scripts, sources and configurations, with the ports that `ported` puts into them."""
    for name, text in {
        "proxy.conf": _PROXY.format(root=folder), "more.cfg": _HAPROXY, "server.js": _NODE,
        "fetches.js": _FETCHES, "server.rb": _RUBY, "server.pl": _PERL, "goserver.go": _GO,
        "more_wsgi.py": _WSGI, "more_tasks.py": _TASKS, "more_cache.py": _CACHE, "regex.cpp": _REGEX,
        "rsyncd.conf": _RSYNC.format(root=folder),
    }.items():  # fmt: skip
        (folder / name).write_text(ported(text))
    (folder / "long.rs").write_text(
        "".join(
            f"pub fn f{i}(x: &mut Vec<u64>) -> u64 {{ x.iter().enumerate().map(|(k, y)| (k as u64 * {i}) ^ y.rotate_left({i % 60})).filter(|y| y % {i + 2} != 0).sum() }}\n"
            for i in range(1500)
        )
    )
    (folder / "many").mkdir()
    for i in range(300):
        body = "".join(
            f"  public java.util.List<Integer> f{k}(java.util.List<String> in) {{ return in.stream().map(s -> s.length() + {k}).filter(n -> n % {k + 2} == 0).sorted().collect(java.util.stream.Collectors.toList()); }}\n"
            for k in range(20)
        )
        (folder / "many" / f"C{i}.java").write_text(f"public class C{i} {{\n{body}}}\n")
