# limits: parse
import json
import queue
import threading
import time

doc = json.dumps({"a": list(range(400)), "b": {str(i): i for i in range(200)}})
q, r = queue.Queue(50), queue.Queue(50)


def parse():
    while True:
        d = q.get()
        for _ in range(60):
            x = json.loads(d)
        r.put(x)


def store():
    while True:
        r.get()
        time.sleep(0.0003)


for f in (parse, store):
    threading.Thread(target=f, daemon=True).start()
end = time.time() + 4
while time.time() < end:
    q.put(doc)
