# limit: load,timer |
"""A server that answers some forty short requests a second of a client that is started beside it."""

import socket
import subprocess
import sys

CLIENT = """
import socket, sys, time
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
    until = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < until:
        s.sendall(b"ping"); s.recv(16); time.sleep(0.025)
"""

with socket.create_server(("127.0.0.1", 0)) as door:
    # away from this process, as a client of another machine is: a session of its own, not our child
    port = str(door.getsockname()[1])
    away = "subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], start_new_session=True)"
    starter = f"import subprocess, sys; {away}"
    subprocess.run([sys.executable, "-c", starter, CLIENT, port, sys.argv[1]], check=True)
    connection, _ = door.accept()
    answered = 0
    while connection.recv(16):
        connection.sendall(b"pong")
        answered += 1
print(answered)
