import ctypes
import os
import socket
import sys

port = int(sys.argv[1])


def serve():
    import selectors

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(50)
    chooser = selectors.DefaultSelector()
    chooser.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in chooser.select():
            if key.fileobj is listener:
                one, _ = listener.accept()
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                chooser.register(one, selectors.EVENT_READ)
            else:
                data = key.fileobj.recv(1000)
                if not data:
                    chooser.unregister(key.fileobj)
                    key.fileobj.close()
                    continue
                key.fileobj.sendall(b"ok " + data)


children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
        serve()
    children.append(child)
with open("children", "w") as file:
    file.write(" ".join(map(str, children)))
os.wait()
