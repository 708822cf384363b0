# limits: parse
import json
import queue
import time

from together import start

doc = json.dumps({"a": list(range(400)), "b": {str(i): i for i in range(200)}})
q, r = queue.Queue(50), queue.Queue(50)


def parse():
    for d in iter(q.get, None):
        for _ in range(60):
            x = json.loads(d)
        r.put(x)


def store():
    while True:
        r.get()
        time.sleep(0.0003)


start(parse, store)
end = time.time() + 4
while time.time() < end:
    q.put(doc)
