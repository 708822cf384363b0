# limit: cpu | quota|CPU | quota=0.3
import hashlib
import sys
import time

end = time.time() + float(sys.argv[1])
h = b"seed"
n = 0
while time.time() < end:
    for _ in range(1000):
        h = hashlib.sha256(h).digest()
    n += 1000
print(n)
