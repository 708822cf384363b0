import multiprocessing
import socket
import sys
import threading
import time


def recv_line(sock):
    line = b""
    while not line.endswith(b"\n"):
        part = sock.recv(200)
        if not part:
            return None
        line += part
    return line


def rates(listener):
    def quote(conn):
        asked = 0
        while (line := recv_line(conn)) is not None:
            asked += 1
            if asked % 200 == 0:
                until = time.perf_counter() + 0.015
                x = 1
                while time.perf_counter() < until:
                    x = x * 1103515245 % 2147483648
            conn.sendall(b"%d\n" % (len(line) * 7919 % 10000))

    while True:
        threading.Thread(target=quote, args=(listener.accept()[0],), daemon=True).start()


def desk(conn, upstream):
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer = socket.create_connection(upstream)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while (line := recv_line(conn)) is not None:
        pair = line.strip().decode().upper()
        peer.sendall(pair.encode() + b"\n")
        rate = int(recv_line(peer)) / 10000
        spread = sum(ord(c) for c in pair) / 1e6
        conn.sendall(f"{pair} {rate - spread:.5f} {rate + spread:.5f}\n".encode())


if __name__ == "__main__":
    back = socket.create_server(("127.0.0.1", 0))
    multiprocessing.Process(target=rates, args=(back,), name="rates", daemon=True).start()
    front = socket.create_server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 7406))
    while True:
        threading.Thread(target=desk, args=(front.accept()[0], back.getsockname()), daemon=True).start()
