import ctypes
import os
import socket
import sys
import threading
import time

port, back = int(sys.argv[1]), int(sys.argv[1]) + 1


def compute():
    until = time.perf_counter() + 0.015
    while time.perf_counter() < until:
        pass


def sleep():
    time.sleep(0.015)


def nothing():
    pass


plant = {"compute": compute, "sleep": sleep, "nothing": nothing}[sys.argv[2]]
if os.fork() == 0:
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    ctypes.CDLL(None).prctl(15, b"stock-room", 0, 0, 0)
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    listener = socket.create_server(("127.0.0.1", back), backlog=100)
    count = [0]

    def serve(one):
        stream = one.makefile("rb")
        while True:
            line = stream.readline()
            if not line:
                return
            while stream.readline() not in (b"\r\n", b""):
                pass
            count[0] += 1
            if count[0] % 200 == 0:
                plant()
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

    def ends():
        time.sleep(40)
        os._exit(0)

    threading.Thread(target=ends, daemon=True).start()
    while True:
        one, _ = listener.accept()
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(one,), daemon=True).start()
os.wait()
time.sleep(0.3)
with open("front.cfg", "w") as file:
    file.write(f"""global
  nbthread 2
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend f
  bind 127.0.0.1:{port}
  default_backend b
backend b
  server s 127.0.0.1:{back}
""")
os.execvp("haproxy", ["haproxy", "-db", "-f", "front.cfg"])
