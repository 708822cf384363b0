import socket
import sys
import threading

STORE = {f"note:{n}".encode(): (b"scroll %d " % n) * 20 for n in range(1000)}
STORE[b"map:whole"] = bytes(range(256)) * 60000


def read_command(stream):
    head = stream.readline()
    if not head:
        return None
    parts = []
    for _ in range(int(head[1:])):
        size = int(stream.readline()[1:])
        parts.append(stream.read(size))
        stream.read(2)
    return parts


def talk(conn):
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream = conn.makefile("rb")
    while command := read_command(stream):
        match command:
            case [b"GET", key]:
                value = STORE.get(key)
                conn.sendall(b"$-1\r\n" if value is None else b"$%d\r\n" % len(value) + value + b"\r\n")
            case [b"SET", key, value]:
                STORE[key] = value
                conn.sendall(b"+OK\r\n")
            case _:
                conn.sendall(b"-ERR unknown\r\n")


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 7405
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()
