import struct

from load import in_turn


def ask(number):
    body = b"x" * (20 + number % 40)
    return struct.pack(">I", len(body)) + body


def take(stream):
    head = stream.read(4)
    return head + stream.read(struct.unpack(">I", head)[0]) if head else b""


in_turn(ask, 4, 0.003, take)
