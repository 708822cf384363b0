# limit: process | unix_lookup|lookup|serve|server
import os
import socket
import sys
import time


def lookup(word):
    best = None
    for i in range(6000):
        d = sum(a != b for a, b in zip(word, str(i * 7919), strict=False))
        if best is None or d < best:
            best = d
    return best


def server(conn):
    while True:
        word = conn.recv(64)
        if not word:
            return
        conn.sendall(str(lookup(word.decode())).encode())


here, there = socket.socketpair()
pid = os.fork()
if pid == 0:
    here.close()
    server(there)
    os._exit(0)
there.close()
end, n = time.time() + float(sys.argv[1]), 0
while time.time() < end:
    here.sendall(b"word%d" % n)
    here.recv(64)
    n += 1
here.close()
os.waitpid(pid, 0)
print(n)
