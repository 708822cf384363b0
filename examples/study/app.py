"""A small application: three parts in a row, of which `work.score` is the largest."""

import json
import zlib

import work

for batch in range(8):
    scores = [work.score(60_000) for _ in range(3)]
    text = json.dumps({"batch": batch, "scores": scores, "rows": list(range(20_000))})
    zlib.compress(text.encode(), 6)
