# limit: disk | diary|fsync|write_entry
import os
import sys
import tempfile
import time


def write_entry(book, n):
    book.write(f"{n}: nothing happened today, {time.time()}\n")
    book.flush()
    os.fsync(book.fileno())


end = time.time() + float(sys.argv[1])
n = 0
with tempfile.NamedTemporaryFile("w", dir="/var/tmp", prefix="diary") as book:
    while time.time() < end:
        write_entry(book, n)
        n += 1
print(n, "entries")
