# limit: disk | till|sale|commit|journal
import os
import sqlite3
import sys
import time
from pathlib import Path

path = f"/var/tmp/till-{os.getpid()}.db"
db = sqlite3.connect(path)
db.execute("PRAGMA synchronous=FULL")
db.execute("CREATE TABLE sale (id INTEGER PRIMARY KEY, item TEXT, pence INT)")
end = time.time() + float(sys.argv[1])
n = 0
while time.time() < end:
    with db:
        db.execute("INSERT INTO sale (item, pence) VALUES (?, ?)", (f"item {n % 17}", n * 3 % 999))
    n += 1
print(n, "sales")
db.close()
for end in ("", "-journal", "-wal"):
    Path(path + end).unlink(missing_ok=True)
