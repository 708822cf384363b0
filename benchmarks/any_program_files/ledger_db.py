# limit: disk | ledger|commit|journal
"""An SQLite file with one transaction a row."""

import sqlite3
import sys
import tempfile
import time

until = time.monotonic() + float(sys.argv[1])
with tempfile.TemporaryDirectory(dir=".") as folder:
    book = sqlite3.connect(f"{folder}/ledger.db")
    book.execute("create table entry(id integer primary key, text)")
    rows = 0
    while time.monotonic() < until:
        with book:
            book.execute("insert into entry(text) values (?)", ("x" * 200,))
        rows += 1
    book.close()
print(rows)
