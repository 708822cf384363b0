# limit: process | gzip
import subprocess
import sys
import tempfile
import time

with tempfile.TemporaryDirectory() as d:
    for i in range(3):
        with open(f"{d}/report{i}.csv", "w") as f:
            for row in range(60000):
                f.write(f"{i},{row},{row * 31 % 977},{row * 7 % 13}\n")
    end = time.time() + float(sys.argv[1])
    n = 0
    while time.time() < end:
        subprocess.run(["gzip", "-9", "-k", "-f", f"{d}/report{n % 3}.csv"], check=True)
        n += 1
print(n)
