import random
import socket
import sys

from load import in_turn

rng = random.Random(3)
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as one:
    for key, size in ((b"small", 100),):
        one.sendall(b"set %s 0 0 %d\r\n" % (key, size) + b"x" * size + b"\r\n")
        one.recv(100)


def take(stream):
    head = stream.readline()
    size = int(head.split()[3])
    return head + stream.read(size + 2) + stream.readline()


def ask(number):
    return b"get small\r\n"


in_turn(ask, 6, 0.004, take)
