import time

from load import in_turn


def take(stream):
    head = stream.readline()
    size = 0
    while (line := stream.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            size = int(line.split(b":")[1])
    body = b""
    while len(body) < size:
        body += stream.read(min(200_000, size - len(body)))
        if size > 100_000:
            time.sleep(0.002)
    return head + body


def ask(number):
    return b"GET %s HTTP/1.1\r\nHost: here\r\n\r\n" % (b"/atlas" if number % 150 == 0 else b"/item")


in_turn(ask, 5, 0.005, take)
