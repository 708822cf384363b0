# limits: parse
import json
import queue

from together import during, pass_on, start

doc = json.dumps({"a": list(range(400)), "b": {str(i): i for i in range(200)}})
q, r = queue.Queue(50), queue.Queue(50)


def parse():
    for d in iter(q.get, None):
        for _ in range(60):
            x = json.loads(d)
        r.put(x)


def store():
    pass_on(r, 0.0003)


start(parse, store)
for _ in during(4):
    q.put(doc)
