"""A client of each protocol: ask.py ADDRESS SECONDS LOG PROTOCOL CONNECTIONS PAUSE_S."""

import socket
import struct
import sys

from load import in_turn

protocol, connections, pause_s = sys.argv[4], int(sys.argv[5]), float(sys.argv[6])


def line(number):
    return b"entry %d\n" % (number % 999)


def page(number):
    return b"GET /item/%d HTTP/1.1\r\nHost: here\r\n\r\n" % (number % 50)


def frame(number):
    body = b"x" * (20 + number % 40)
    return struct.pack(">I", len(body)) + body


def small(number):
    return b"get small\r\n"


def some_large(number):
    return b"get large\r\n" if number % 150 == 0 else b"get small\r\n"


def take_line(stream):
    return stream.readline()


def take_page(stream):
    head, size = stream.readline(), 0
    while (one := stream.readline()) not in (b"\r\n", b""):
        if one.lower().startswith(b"content-length:"):
            size = int(one.split(b":")[1])
    return head + stream.read(size)


def take_frame(stream):
    head = stream.read(4)
    return head + stream.read(struct.unpack(">I", head)[0]) if head else b""


def take_value(stream):
    head = stream.readline()
    return head + stream.read(int(head.split()[3]) + 2) + stream.readline()


if protocol.startswith("cache"):
    values = {b"small": 100, b"large": 6_000_000} if protocol == "cache-large" else {b"small": 100}
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as one:
        for key, size in values.items():
            one.sendall(b"set %s 0 0 %d\r\n" % (key, size) + b"x" * size + b"\r\n")
            one.recv(100)

PROTOCOLS = {
    "line": (line, take_line),
    "http": (page, take_page),
    "frame": (frame, take_frame),
    "cache": (small, take_value),
    "cache-large": (some_large, take_value),
}
ask, take = PROTOCOLS[protocol]
in_turn(ask, connections, pause_s, take)
