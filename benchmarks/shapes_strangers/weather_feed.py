# limits: listen
import queue
import socket
import struct
import threading
import time

inbox = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
inbox.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
inbox.bind(("127.0.0.1", 0))
readings = queue.Queue(40)


def stations():
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    number = 0
    while True:
        for _ in range(5):
            out.sendto(struct.pack("!Id", number, number * 0.1), inbox.getsockname())
            number += 1
        time.sleep(0.002)


def listen():
    while True:
        packet = inbox.recv(64)
        time.sleep(0.003)
        readings.put(struct.unpack("!Id", packet))


def chart():
    highest = 0.0
    while True:
        _, value = readings.get()
        highest = max(highest, value)
        time.sleep(0.0005)


for part in (stations, listen, chart):
    threading.Thread(target=part, name=part.__name__, daemon=True).start()
time.sleep(4)
