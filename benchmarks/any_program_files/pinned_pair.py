# limit: cpu | neighbour|CPU|another|python | pinned
"""A lone thread that computes shares its only CPU with a neighbour that is not ours."""

import sys
import time

until = time.monotonic() + float(sys.argv[1])
total = 0
while time.monotonic() < until:
    total += sum(k * k for k in range(2000))
print(total)
